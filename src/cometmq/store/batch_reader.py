"""Reading batch queues: which batches a pull gets, and which batch was stored at a time.

A pull that begins inside a batch gets the whole of it; its client drops what it did not ask for. A batch counts as
many messages as it holds, but the first is always given, however many they are.

Mirrors: DefaultMessageStore.getMessage, BatchConsumeQueue.getOffsetInQueueByTime.
"""

from __future__ import annotations

from typing import Final

from cometmq.store.batch_healing import BatchHealer
from cometmq.store.batch_queue import BATCH_UNIT, BATCH_UNIT_SIZE, BatchQueue, BatchQueues
from cometmq.store.commit_log import CommitLog, Range
from cometmq.store.config import StoreConfig
from cometmq.store.reader import (
    PULL_SIZE_MAX,
    PULL_SIZE_MIN,
    Matches,
    ReadResult,
    ReadStatus,
    RecordFilter,
    memory_size,
)
from cometmq.store.residency import Residency
from cometmq.store.time_search import LOWER, Boundary
from cometmq.store.unit_healing import UnitHealer

SCAN_COUNT_MAX: Final = 10_000  # units that one pull looks at, whatever it asks for


class BatchReader:
    """Finds batches by the offsets of their messages."""

    def __init__(
        self, log: CommitLog, batches: BatchQueues, residency: Residency, config: StoreConfig, healer: UnitHealer
    ) -> None:
        self._log = log
        self._batches = batches
        self._healer = BatchHealer(log, batches, healer)
        self._config = config
        self._memory_size = memory_size(config)
        self._is_cold = residency.is_cold

    def read(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int | None, matches: Matches | None
    ) -> ReadResult | None:
        """Batches from the one that covers `offset` on, as many as one answer may carry."""
        queue = self._batches.find(topic, queue_id)
        if queue is None:
            return None
        low, high = queue.min_offset, queue.end_offset

        def nothing(status: ReadStatus, next_offset: int) -> ReadResult:
            return ReadResult(status, next_offset, low, high, [], 0, False, False)

        if high == 0:
            return nothing(ReadStatus.NO_MESSAGE_IN_QUEUE, 0)
        if offset < low:
            return nothing(ReadStatus.OFFSET_TOO_SMALL, low)
        if offset == high:
            return nothing(ReadStatus.OFFSET_OVERFLOW_ONE, offset)
        if offset > high:
            return nothing(ReadStatus.OFFSET_OVERFLOW_BADLY, high)
        found = self._read(queue, offset, max_count, max_bytes, matches)
        if found is None:
            self._healer.heal(queue)
            found = self._read(queue, offset, max_count, max_bytes, matches)
        return found or nothing(ReadStatus.OFFSET_FOUND_NULL, 0)

    def _read(
        self, queue: BatchQueue, offset: int, max_count: int, max_bytes: int | None, matches: Matches | None
    ) -> ReadResult | None:
        """What `read` finds; None if the units cannot be believed."""
        low, high = queue.min_offset, queue.end_offset
        number = self._batches.unit_at(queue, offset)
        if number is None:
            return None
        config, log = self._config, self._log
        max_bytes = PULL_SIZE_MAX if max_bytes is None else min(max(max_bytes, PULL_SIZE_MIN), PULL_SIZE_MAX)
        scan_size = max(config.max_filter_message_size, min(max_count, SCAN_COUNT_MAX) * BATCH_UNIT_SIZE)
        units = self._batches.table.units(queue.units, number, scan_size // BATCH_UNIT_SIZE + 2)
        memory_offset = log.written - self._memory_size
        min_physical, confirmed = log.min_offset, log.confirm_offset
        status = ReadStatus.NO_MATCHED_MESSAGE
        ranges: list[Range] = []
        bases: list[int] = []
        size_sum = total = seen = 0
        skip_before = physical_offset = -1
        next_offset = offset
        for physical_offset, size, tags_code, _, base, count, _, _ in BATCH_UNIT.iter_unpack(units):
            if next_offset >= high or (base - offset) * BATCH_UNIT_SIZE >= scan_size:
                break
            if total and (
                total + count > max_count
                or size_sum + size > max_bytes
                or self._is_full(size_sum + size, total, in_memory=physical_offset >= memory_offset)
            ):
                break
            seen += 1
            next_offset = base + count
            if physical_offset < skip_before:
                continue
            if matches is not None and not matches(tags_code):
                continue
            if physical_offset < min_physical or physical_offset + size > confirmed:
                if not total:
                    status = ReadStatus.MESSAGE_WAS_REMOVING
                skip_before = log.segment_end(physical_offset)
                continue
            if isinstance(matches, RecordFilter) and not self._wants(queue, matches, physical_offset, size, base):
                if not total:
                    status = ReadStatus.NO_MATCHED_MESSAGE
                continue
            ranges.append((physical_offset, size))
            bases.append(base)
            size_sum += size
            total += count
            status = ReadStatus.FOUND
            skip_before = -1
        cold = self._is_cold(ranges)
        if not self._healer.agrees(queue, offset, number, units[: seen * BATCH_UNIT_SIZE], cold=cold):
            return None
        suggest_slave = log.written - physical_offset > self._memory_size
        return ReadResult(status, next_offset, low, high, ranges, size_sum, suggest_slave, cold, bases, queue.units)

    def _wants(self, queue: BatchQueue, matches: RecordFilter, physical_offset: int, size: int, base: int) -> bool:
        record = self._log.slice(physical_offset, size)
        if record is None or not self._healer.is_record(queue, physical_offset, size, base):
            return False
        return matches.wants(record)

    def heal_first(self) -> None:
        """See to it that each queue begins where its first batch does."""
        self._healer.heal_first()

    def mended(self, found: ReadResult) -> ReadResult:
        """The same batches, at the places where they stand indeed; those that are lost are left out."""
        units = found.queue
        queue = None if units is None else self._batches.queues.get((units.topic, units.queue_id))
        if queue is None:
            return found._replace(ranges=[], offsets=[], size=0)
        self._healer.heal(queue)
        ranges: list[Range] = []
        bases: list[int] = []
        for base in found.offsets:
            number = self._batches.unit_at(queue, base)
            unit = (-1, 0, 0, 0, -1) if number is None else self._unit(queue, number)
            if unit[4] == base and self._healer.is_record(queue, unit[0], unit[1], base):
                ranges.append((unit[0], unit[1]))
                bases.append(base)
        return found._replace(ranges=ranges, size=sum(size for _, size in ranges), offsets=bases)

    def _is_full(self, size_sum: int, count: int, *, in_memory: bool) -> bool:
        config = self._config
        if in_memory:
            size_max = config.max_transfer_bytes_on_message_in_memory
            return size_sum > size_max or count >= config.max_transfer_count_on_message_in_memory
        size_max = config.max_transfer_bytes_on_message_in_disk
        return size_sum > size_max or count >= config.max_transfer_count_on_message_in_disk

    # --- times

    def store_time_ms(self, queue: BatchQueue, offset: int) -> int:
        """Store time of the batch that covers a message; -1 if it is gone or not there."""
        if not queue.min_offset <= offset < queue.end_offset:
            return -1
        number = self._batches.unit_at(queue, offset)
        unit = None if number is None else self._batches.table.unit(queue.units, number)
        return -1 if unit is None else self._log.store_time_ms(unit[0], unit[1])

    def offset_by_time(self, queue: BatchQueue, time_ms: int, boundary: Boundary = LOWER) -> int:
        """The first message of the batch that answers to a time, within the queue's bounds; 0 if there is none."""
        units = queue.units
        if units.max_offset <= units.first_offset:
            return 0
        starts = range(units.first_offset, units.max_offset, units.file_units)
        start = next((one for one in reversed(starts) if self._unit(queue, one)[3] <= time_ms), starts[0])
        found = self._search(queue, start, min(units.file_end(start), units.max_offset) - 1, time_ms, boundary)
        return min(max(found, queue.min_offset), queue.end_offset)

    def _search(self, queue: BatchQueue, low: int, high: int, time_ms: int, boundary: Boundary) -> int:
        """Java's search within a file, with its ways: a time behind the last unit is answered with that unit, and
        UPPER may stop one before it."""
        last = self._unit(queue, high)
        if time_ms >= last[3]:
            return last[4]
        while low <= high:
            middle = (low + high) // 2
            unit = self._unit(queue, middle)
            if middle in (low, high):
                if unit[3] >= time_ms:
                    return unit[4]
                if middle == high:
                    return -1
                low = middle + 1
            elif boundary == LOWER:
                low, high = (middle + 1, high) if unit[3] < time_ms else (low, middle)
            else:
                low, high = (middle, high) if unit[3] <= time_ms else (low, middle - 1)
        return -1

    def _unit(self, queue: BatchQueue, number: int) -> tuple[int, ...]:
        return self._batches.table.unit(queue.units, number) or (-1, 0, 0, -1, 0, 0, 0, 0)
