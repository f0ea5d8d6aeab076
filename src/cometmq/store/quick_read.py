"""The usual pull, as one frame: messages that are in memory, wanted all, standing in one segment of the log.

`Reader.read` decides what a pull gets; this is its short cut for consumers that keep up. `units` finds the places
and says None for whatever is not usual, `framed` copies the records behind the head of a reply, once. Where either
says None nothing has happened, and the patient way is taken; `tests/property` holds both to the same bytes.

    head (total size 4 · …)  ·  record  ·  record  ·  …         the total size is filled in here
"""

from __future__ import annotations

from functools import lru_cache
from itertools import repeat
from operator import add
from struct import Struct
from typing import Final, NamedTuple

from cometmq import compiled
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import UNIT, UNIT_SIZE
from cometmq.store.queue_table import QueueTable
from cometmq.store.reader import memory_size
from cometmq.store.residency import Residency
from cometmq.store.unit_healing import HEAD
from cometmq.wire.record import RECORD_SIZE_MIN

_SIZE: Final = Struct(">i")
_PHYSICAL_OFFSET: Final = Struct(">q")  # of a unit
_FIELDS: Final = 3  # of a unit: physical offset, size, tags code


class QuickUnits(NamedTuple):
    """Units of a queue as they are stored, and where a pull goes on behind them."""

    units: bytes
    next_offset: int
    min_offset: int
    max_offset: int


@lru_cache(64)
def _unpacker(count: int) -> Struct:
    return Struct(">" + "qiq" * count)


class QuickReader:
    """Reads what is surely in memory."""

    def __init__(self, log: CommitLog, table: QueueTable, residency: Residency, config: StoreConfig) -> None:
        self._log = log
        self._queues = table.queues
        self._units = table.units
        self._is_recent = residency.is_recent
        self._is_cold = residency.is_cold
        self._count_max = config.max_transfer_count_on_message_in_memory
        self._bytes_max = config.max_transfer_bytes_on_message_in_memory
        self._memory_size = memory_size(config)

    def units(self, topic: str, queue_id: int, offset: int, max_count: int) -> QuickUnits | None:
        """The next units of a queue, no more than one answer carries."""
        queue = self._queues.get((topic, queue_id))
        if queue is None or not queue.min_offset <= offset < queue.max_offset or max_count <= 0:
            return None
        units = self._units(queue, offset, min(max_count, self._count_max))
        if not units:
            return None
        return QuickUnits(units, offset + len(units) // UNIT_SIZE, queue.min_offset, queue.max_offset)

    def framed(self, head: bytes, units: bytes, queue_id: int, offset: int) -> bytes | None:
        """A reply whose body are the records of `units`, from that of message `offset` on, if all units are sound.

        `head` is that of a reply without a body.
        """
        log = self._log
        first: int = _PHYSICAL_OFFSET.unpack_from(units)[0]
        start = first - first % log.segment_size
        if not max(log.min_offset, log.written - self._memory_size) <= first < log.confirm_offset:
            return None
        if not self._is_recent(first) and self._is_cold([(at, size) for at, size, _ in UNIT.iter_unpack(units)]):
            return None
        end = min(log.confirm_offset, start + log.segment_size)
        return framed(head, log.view_of(start), start, units, end, self._bytes_max, queue_id, offset)


def framed_in_python(
    head: bytes, view: memoryview, start: int, units: bytes, end: int, size_max: int, queue_id: int, queue_offset: int
) -> bytes | None:
    """The records that `units` point to, behind a head; None if one does not end before `end`, or they are too large.

    None, too, if a unit names no record of this queue, the first that of message `queue_offset`. `view` shows the log
    from `start` on. Records of a queue stand in its order.
    """
    fields = _unpacker(len(units) // UNIT_SIZE).unpack(units)
    offsets, sizes = fields[::_FIELDS], fields[1::_FIELDS]
    body_size = sum(sizes)
    if body_size > size_max or min(offsets) < start or max(map(add, offsets, sizes)) > end:
        return None
    count = len(offsets)
    said = zip(sizes, repeat(queue_id), range(queue_offset, queue_offset + count), strict=False)
    if min(sizes) < RECORD_SIZE_MIN or [HEAD.unpack_from(view, at - start) for at in offsets] != list(said):
        return None
    pieces = [view[offset - start : offset - start + size] for offset, size in zip(offsets, sizes, strict=True)]
    return b"".join((_SIZE.pack(len(head) - _SIZE.size + body_size), head[_SIZE.size :], *pieces))


framed = compiled.twin("framed", framed_in_python)
