"""Places of half messages, packed: the body of END_TRANSACTIONS, and what the sink of Spark keeps of a batch.

    count │ queue offset │ physical offset │ queue offset │ physical offset │ …

each number as the difference to the one before it of its kind, folded (0 -1 1 -2 2 … become 0 1 2 3 4 …), in groups of
seven bits, the lowest first; the eighth says that more follow. The order is kept. One place takes about four bytes.
Invariant: what cannot be read raises `ProtocolError` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cometmq.errors import ProtocolError

ENDS_MAX: Final = 4096  # places in one END_TRANSACTIONS
_OFFSET_MAX: Final = (1 << 63) - 1


class Position(NamedTuple):
    """Where a half message stands: in its queue, and in the log."""

    queue_offset: int
    physical_offset: int


class PositionsPacker:
    """Writes places down as they come, so that only the packed ones are kept."""

    def __init__(self) -> None:
        self._count = 0
        self._packed = bytearray()
        self._last = Position(0, 0)

    def add(self, positions: Iterable[Position]) -> None:
        queue_before, physical_before = self._last
        for queue_offset, physical_offset in positions:
            _put(self._packed, _fold(queue_offset - queue_before))
            _put(self._packed, _fold(physical_offset - physical_before))
            queue_before, physical_before = queue_offset, physical_offset
            self._count += 1
        self._last = Position(queue_before, physical_before)

    def packed(self) -> bytes:
        """All of them so far."""
        count = bytearray()
        _put(count, self._count)
        return bytes(count + self._packed)


def pack_positions(positions: Iterable[Position]) -> bytes:
    """Write places down."""
    packer = PositionsPacker()
    packer.add(positions)
    return packer.packed()


def unpack_positions(data: bytes | memoryview, count_max: int | None = None) -> list[Position]:
    """Read them; more than `count_max` are refused before anything is made of them."""
    return list(each_position(data, count_max))


def each_position(data: bytes | memoryview, count_max: int | None = None) -> Iterator[Position]:
    """The same one by one; what is wrong with the last is said behind those before it."""
    count, at = _take(data, 0)
    if count > len(data) // 2 or (count_max is not None and count > count_max):
        raise ProtocolError(f"{count} places of half messages in {len(data)} bytes; {count_max or 'no'} are allowed")
    queue_offset = physical_offset = 0
    for _ in range(count):
        folded, at = _take(data, at)
        queue_offset += _unfold(folded)
        folded, at = _take(data, at)
        physical_offset += _unfold(folded)
        if not (0 <= queue_offset <= _OFFSET_MAX and 0 <= physical_offset <= _OFFSET_MAX):
            raise ProtocolError(f"no half message stands at {queue_offset}, {physical_offset}")
        yield Position(queue_offset, physical_offset)
    if at != len(data):
        raise ProtocolError(f"{len(data) - at} bytes are left behind {count} places of half messages")


def _fold(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unfold(number: int) -> int:
    return -((number + 1) >> 1) if number & 1 else number >> 1


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _take(data: bytes | memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ProtocolError(f"places of half messages are cut at byte {at} of {len(data)}")
