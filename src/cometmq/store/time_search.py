"""Which message of a queue was stored at a time? Binary search over queue units, reading store times in the log.

    LOWER   the first message at or after the time; behind the last message if all are older
    UPPER   the last message at or before the time

The answers at the edges are Java's, which searches file by file: first the file is chosen by the store times of its
first and last unit, then the unit within it.

Mirrors: ConsumeQueue.getOffsetInQueueByTime, MappedFileQueue.getConsumeQueueMappedFileByTime.
"""

from __future__ import annotations

from typing import Final, Literal

from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import BLANK_UNIT_SIZE, ConsumeQueue
from cometmq.store.queue_table import QueueTable
from cometmq.store.unit_healing import UnitHealer

Boundary = Literal["LOWER", "UPPER"]
LOWER: Final = "LOWER"
UPPER: Final = "UPPER"


class TimeSearch:
    """Looks up store times and offsets by time."""

    def __init__(self, log: CommitLog, table: QueueTable, healer: UnitHealer) -> None:
        self._log = log
        self._table = table
        self._healer = healer

    def store_time_ms(self, queue: ConsumeQueue, offset: int) -> int:
        """Store time of a message; -1 if it is gone or not there."""
        return self._unit_time_ms(queue, offset) if offset >= queue.min_offset else -1

    def _unit_time_ms(self, queue: ConsumeQueue, offset: int) -> int:
        unit = self._unit(queue, offset)
        return -1 if unit is None else self._log.store_time_ms(unit[0], unit[1])

    def _unit(self, queue: ConsumeQueue, offset: int) -> tuple[int, ...] | None:
        unit = self._table.unit(queue, offset)
        if unit is not None and queue.min_offset <= offset and unit[1] != BLANK_UNIT_SIZE:
            self._healer.heal(queue, offset)
            unit = self._table.unit(queue, offset)
        return unit

    def offset_by_time(self, queue: ConsumeQueue, time_ms: int, boundary: Boundary = LOWER) -> int:
        """The offset that answers to a time, within the queue's bounds."""
        if queue.max_offset <= queue.first_offset:
            return max(queue.min_offset, 0)
        start = self._file_by_time(queue, time_ms, boundary)
        found = 0 if start is None else self._search(queue, start, time_ms, boundary)
        return min(max(found, queue.min_offset), queue.max_offset)

    def _file_by_time(self, queue: ConsumeQueue, time_ms: int, boundary: Boundary) -> int | None:
        """First unit of the file to search; None: no file begins early enough."""
        starts = range(queue.first_offset, queue.max_offset, queue.file_units)
        if boundary == LOWER:
            for start in starts[:-1]:
                if self._unit_time_ms(queue, start + queue.file_units - 1) >= time_ms:
                    return start
            return starts[-1]
        for start in reversed(starts):
            if self._unit_time_ms(queue, start) <= time_ms:
                return start
        return None

    def _search(self, queue: ConsumeQueue, start: int, time_ms: int, boundary: Boundary) -> int:
        lower = boundary == LOWER
        floor = low = max(queue.min_offset, start)
        ceiling = high = min(start + queue.file_units, queue.max_offset) - 1
        if self._unit_time_ms(queue, ceiling) < time_ms:
            return ceiling + 1 if lower else ceiling
        if self._unit_time_ms(queue, floor) > time_ms:
            return start if lower else 0
        min_physical = self._log.min_offset
        left = right = start - 1
        while low <= high:
            middle = (low + high) // 2
            unit = self._unit(queue, middle)
            if unit is None:
                return 0
            if unit[0] < min_physical:
                low, left = middle + 1, middle
                continue
            found_ms = self._log.store_time_ms(unit[0], unit[1])
            if found_ms < 0:
                return 0
            if found_ms == time_ms:
                return self._edge(queue, middle, floor if lower else ceiling, time_ms)
            if found_ms > time_ms:
                high, right = middle - 1, middle
            else:
                low, left = middle + 1, middle
        return right if lower else left

    def _edge(self, queue: ConsumeQueue, offset: int, limit: int, time_ms: int) -> int:
        """The last message in the direction of `limit` that has the very same store time."""
        step = -1 if limit < offset else 1
        while offset != limit and self._unit_time_ms(queue, offset + step) == time_ms:
            offset += step
        return offset
