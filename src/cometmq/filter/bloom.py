"""The Bloom filter of consumers that filter by expression: which bits stand for a group and a topic.

The original can mark, for each message, which consumers want it (`enableCalcFilterBitMap`, off by default). CometMQ
does not, but the bits are part of `consumerFilter.json`, and Java ignores a whole file whose bits are not its own.

Mirrors: BloomFilter, BloomFilterData, Guava's Hashing.murmur3_128.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, e, log
from typing import Final

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


@dataclass(frozen=True)
class BloomFilter:
    """`error_rate` in percent, `consumers` as many as are expected."""

    error_rate: int = 20
    consumers: int = 32

    @property
    def hash_count(self) -> int:
        return ceil(log(self.error_rate / 100) / log(0.5))

    @property
    def bit_count(self) -> int:
        bits = ceil(self.consumers * (log(100 / self.error_rate) / log(2)) * (log(e) / log(2)))
        return (bits + 7) // 8 * 8

    def bits_of(self, text: str) -> list[int]:
        """The bits that stand for a text."""
        found = murmur3(text.encode())
        low, high, count = found & 0xFFFFFFFF, found >> 32, self.bit_count
        return [_never_negative(low + turn * high) % count for turn in range(1, self.hash_count + 1)]


def _never_negative(value: int) -> int:
    """A Java int, flipped where it is negative."""
    value &= 0xFFFFFFFF
    return value ^ 0xFFFFFFFF if value & 0x80000000 else value


def murmur3(data: bytes) -> int:
    """The lower 64 bits of MurmurHash3 x64 128, seed 0."""
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        h1 ^= _mixed(int.from_bytes(data[at : at + 8], "little"), _C1, 31, _C2)
        h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mixed(int.from_bytes(data[at + 8 : at + 16], "little"), _C2, 33, _C1)
        h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    h1 ^= _mixed(int.from_bytes(data[whole : whole + 8], "little"), _C1, 31, _C2)
    h2 ^= _mixed(int.from_bytes(data[whole + 8 :], "little"), _C2, 33, _C1)
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _finished(h1) + _finished(h2) & _MASK


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK


def _mixed(value: int, first: int, turn: int, second: int) -> int:
    return _rotated(value * first & _MASK, turn) * second & _MASK


def _finished(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
