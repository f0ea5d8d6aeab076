"""Java's `String.hashCode`, which the disk format uses for tags and index keys.

    h = c[0]·31^(n-1) + c[1]·31^(n-2) + … + c[n-1]     over UTF-16 units, as a signed 32-bit integer

Written three times, for speed. Up to 32 ASCII characters (every tag and unique key) are one integer whose bytes are
folded pairwise, all pairs at once: neighbours a, b become a·31 + b in a lane twice as wide, then pairs of these
with 31², and so on; no lane overflows. Many texts of 32 are one long integer, folded in the same few steps.
Anything else is a sum over precomputed powers.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import mul
from sys import byteorder
from typing import Final

_UTF_16: Final = "utf-16-le" if byteorder == "little" else "utf-16-be"
_POWERS = [1]
while len(_POWERS) < 512:
    _POWERS.append(_POWERS[-1] * 31 & 0xFFFFFFFF)
# _TAILS[n]: the powers 31^(n-1) … 31^0 for a text of n units.
_TAILS: list[list[int]] = [_POWERS[:n][::-1] for n in range(65)]

_FOLDED_LENGTH_MAX: Final = 32
_LANES_8, _LANES_16, _LANES_32, _LANES_64 = (
    sum((2**bits - 1) << at for at in range(0, 256, 2 * bits)) for bits in (8, 16, 32, 64)
)
_31_POW_2, _31_POW_4, _31_POW_8, _31_POW_16 = 961, 923_521, 852_891_037_441, 727_423_121_747_185_263_828_481


def _units(text: str) -> Sequence[int]:
    return text.encode("ascii") if text.isascii() else array("H", text.encode(_UTF_16, "surrogatepass"))


def unsigned_hash(text: str, prefix_hash: int = 0) -> int:
    """The hash as 0 ≤ h < 2³²; `prefix_hash` is that of the text before this one."""
    length = len(text)
    if length <= _FOLDED_LENGTH_MAX and text.isascii():
        x = int.from_bytes(text.encode(), "big")
        x = (x & _LANES_8) + 31 * (x >> 8 & _LANES_8)
        x = (x & _LANES_16) + _31_POW_2 * (x >> 16 & _LANES_16)
        x = (x & _LANES_32) + _31_POW_4 * (x >> 32 & _LANES_32)
        if length > 8:
            x = (x & _LANES_64) + _31_POW_8 * (x >> 64 & _LANES_64)
            x += _31_POW_16 * (x >> 128)
        return (prefix_hash * _POWERS[length] + x) & 0xFFFFFFFF
    units = _units(text)
    length = len(units)
    if length < len(_TAILS):
        tail: int = sum(map(mul, units, _TAILS[length]))
        return (prefix_hash * _POWERS[length] + tail) & 0xFFFFFFFF
    total = prefix_hash
    for unit in units:
        total = (total * 31 + unit) & 0xFFFFFFFF
    return total


FOLDED_LENGTH: Final = 32
FOLDED_COUNT_MAX: Final = 256
POWER_OF_FOLDED: Final = _POWERS[FOLDED_LENGTH]  # h(prefix + text) = h(prefix) · this + h(text)


def _lanes(bits: int, every: int) -> int:
    return sum((2**bits - 1) << at for at in range(0, FOLDED_COUNT_MAX * FOLDED_LENGTH * 8, every))


# Step by step: how far apart the halves of a pair stand, what one counts, and which bits of it are of any use.
_FOLDS: Final = [
    (8, 31, _lanes(8, 16)),
    (16, _31_POW_2, _lanes(16, 32)),
    (32, _31_POW_4, _lanes(32, 64)),
    (64, _31_POW_8 & 0xFFFFFFFF, _lanes(32, 128)),
    (128, _31_POW_16 & 0xFFFFFFFF, _lanes(32, 256)),
]


def unsigned_hashes(texts: Sequence[str]) -> list[int]:
    """The hashes of up to 256 texts, each of 32 ASCII characters, at a quarter of the price."""
    x = int.from_bytes("".join(texts).encode("ascii"), "little")  # first characters lowest: they count most
    for distance, power, lanes in _FOLDS:
        x = power * (x & lanes) + (x >> distance & lanes)
    values = array("I", x.to_bytes(len(texts) * FOLDED_LENGTH, "little"))
    if byteorder == "big":
        values.byteswap()
    return values[:: FOLDED_LENGTH // 4].tolist()


def string_hash(text: str) -> int:
    """The hash as Java returns it: −2³¹ ≤ h < 2³¹."""
    value = unsigned_hash(text)
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def tags_code(tags: str | None) -> int:
    """The tag's hash as a ConsumeQueue unit stores it; no tag is 0."""
    code = _TAGS_CODES.get(tags)
    if code is None:
        assert tags is not None
        code = string_hash(tags)
        if len(tags) <= REMEMBERED_LENGTH_MAX:
            if len(_TAGS_CODES) > REMEMBERED_TAGS_MAX:
                _TAGS_CODES.clear()
                _TAGS_CODES[None] = 0
            _TAGS_CODES[tags] = code
    return code


# A program has few tags and sends them often; long ones are not kept, whoever sends them.
REMEMBERED_TAGS_MAX: Final = 4096
REMEMBERED_LENGTH_MAX: Final = 64
_TAGS_CODES: dict[str | None, int] = {None: 0}
