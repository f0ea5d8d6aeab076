"""Reading: which records a pull gets, and their bytes.

`read` decides by the ConsumeQueue and returns places, not objects; `slices` gives views of the log's maps
without a copy, for the recent window that is surely in memory; `load_found` reads with pread and may run in a worker
thread, for older ranges whose pages might not be there. How many messages one answer carries is Java's rule.

A unit that names no record (`unit_healing.py`) is mended before anything is handed out. Where the records may be on
disk only, `read` does not look at them: then `load_found` tells, and `mended` has the places as they should be.

Mirrors: DefaultMessageStore.getMessage, isTheBatchFull, queryMessage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from struct import Struct
from typing import Final, NamedTuple, Protocol

from cometmq.errors import QueueDamaged, UnitsDoubted
from cometmq.model.names import LMQ_PREFIX, SCHEDULE_TOPIC
from cometmq.store.commit_log import CommitLog, Range
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import BLANK_UNIT_SIZE, UNIT, UNIT_SIZE, ConsumeQueue
from cometmq.store.fs import FileSystem
from cometmq.store.queue_extension import ADDRESS_MAX, QueueExtension
from cometmq.store.queue_table import QueueTable
from cometmq.store.residency import Residency
from cometmq.store.segment import segment_path
from cometmq.store.unit_healing import HASH_MAX, UnitHealer, is_record
from cometmq.wire.record import MAGIC_V1, MAGIC_V2, PREFIX, RECORD_SIZE_MIN, Buffer

Matches = Callable[[int], bool]


class RecordFilter:
    """A test that needs the record itself: as `Matches` it lets every unit pass, and then `wants` is asked."""

    __slots__ = ("scan_max", "wants")

    def __init__(self, wants: Callable[[Buffer], bool], scan_max: int) -> None:
        self.wants = wants
        self.scan_max = scan_max  # so many records are looked at in one read

    def __call__(self, tags_code: int) -> bool:
        return True


PULL_SIZE_MAX: Final = 128 * 1024 * 1024
PULL_SIZE_MIN: Final = 100
GAP_MAX: Final = 32 * 1024

_PHYSICAL_OFFSET: Final = Struct(">q")


class ReadStatus(Enum):
    """What came of a read; the names are Java's."""

    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()


class ReadResult(NamedTuple):
    """`ranges` are records in queue order; `cold` says that they should be read with `load`."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    ranges: list[Range]
    size: int
    suggest_slave: bool
    cold: bool
    offsets: Sequence[int] = ()  # which message each range is
    queue: ConsumeQueue | None = None


class BatchReads(Protocol):
    """What a pull gets of a topic of batches; None: the topic is none."""

    def read(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int | None, matches: Matches | None
    ) -> ReadResult | None: ...

    def mended(self, found: ReadResult) -> ReadResult: ...


class Reader:
    """Finds records by queue offset and reads them."""

    def __init__(
        self,
        fs: FileSystem,
        log: CommitLog,
        table: QueueTable,
        residency: Residency,
        config: StoreConfig,
        batches: BatchReads,
        extension: QueueExtension,
        healer: UnitHealer,
    ) -> None:
        self._fs = fs
        self._log = log
        self._table = table
        self._config = config
        self._batches = batches
        self._extension = extension
        self._healer = healer
        self._memory_size = memory_size(config)
        self._count_max = max(
            config.max_transfer_count_on_message_in_memory, config.max_transfer_count_on_message_in_disk
        )
        self._is_cold = residency.is_cold
        self.is_recent = residency.is_recent

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int | None = None,
        matches: Matches | None = None,
    ) -> ReadResult:
        """Records of a queue from `offset` on, as many as one answer may carry."""
        queue = self._table.queues.get((topic, queue_id))
        if queue is None or queue.max_offset == 0:
            of_batches = self._batches.read(topic, queue_id, offset, max_count, max_bytes, matches)
            return of_batches or ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [], 0, False, False)
        found = self._read(queue, offset, max_count, max_bytes, matches)
        seen: set[int] = set()
        while isinstance(found, int):  # what the unit of this message names is not it
            if found in seen:
                raise QueueDamaged(f"{queue.path_of(found)}: the unit of message {found} changes while it is read")
            seen.add(found)
            self._healer.heal(queue, found)
            found = self._read(queue, offset, max_count, max_bytes, matches)
        return found

    def _read(
        self, queue: ConsumeQueue, offset: int, max_count: int, max_bytes: int | None, matches: Matches | None
    ) -> ReadResult | int:
        """What `read` finds, or the offset of a message whose unit is to be mended first."""
        low, high = queue.min_offset, queue.max_offset
        if offset < low:
            return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high, [], 0, False, False)
        if offset == high:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, low, high, [], 0, False, False)
        if offset > high:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high, [], 0, False, False)
        config, log, healer = self._config, self._log, self._healer
        topic, queue_id = queue.topic, queue.queue_id
        memory_bytes_max = config.max_transfer_bytes_on_message_in_memory
        memory_count_max = config.max_transfer_count_on_message_in_memory
        max_count = min(max_count, self._count_max)  # whatever is asked for, the work stays small
        scan_count = (max(config.max_filter_message_size, max_count * UNIT_SIZE) + UNIT_SIZE - 1) // UNIT_SIZE
        max_bytes = PULL_SIZE_MAX if max_bytes is None else min(max(max_bytes, PULL_SIZE_MIN), PULL_SIZE_MAX)
        if matches is None and queue.min_offset <= offset:
            # Nothing to skip: no more than one answer's worth of units is looked at.
            scan_count = min(scan_count, max(max_count, 1))
        wants = None
        if isinstance(matches, RecordFilter):
            wants, scan_count = matches.wants, min(scan_count, matches.scan_max)
        units = self._table.units(queue, offset, scan_count)
        if not units:
            return ReadResult(ReadStatus.OFFSET_FOUND_NULL, queue.file_end(offset), low, high, [], 0, False, False)
        memory_offset = log.written - self._memory_size
        min_physical, confirmed = log.min_offset, log.confirm_offset
        if matches is None and len(units) <= memory_count_max * UNIT_SIZE:
            # The usual pull: everything is recent, and all of it fits in the answer.
            ranges = [(at, size) for at, size, _ in UNIT.iter_unpack(units)]
            size_sum = sum([size for _, size in ranges])
            if (
                size_sum <= min(max_bytes, memory_bytes_max)
                and ranges[0][0] >= max(memory_offset, min_physical)
                and not self._is_cold(ranges)
            ):
                next_offset = offset + len(ranges)
                offsets = range(offset, next_offset)
                if healer.first_unsound(queue, ranges, offsets) is None:
                    return ReadResult(
                        ReadStatus.FOUND, next_offset, low, high, ranges, size_sum, False, False, offsets, queue
                    )
        status = ReadStatus.NO_MATCHED_MESSAGE
        ranges = []
        found_offsets: list[int] = []
        lost = healer.lost(queue)
        segment_size = log.segment_size
        has_hashes = topic != SCHEDULE_TOPIC
        size_sum = count = 0
        physical_offset = -1
        next_offset = offset
        for physical_offset, size, tags_code in UNIT.iter_unpack(units):
            if count:
                if count >= max_count or size_sum + size > max_bytes:
                    break
                if physical_offset >= memory_offset:
                    if size_sum + size > memory_bytes_max or count >= memory_count_max:
                        break
                elif (
                    size_sum + size > config.max_transfer_bytes_on_message_in_disk
                    or count >= config.max_transfer_count_on_message_in_disk
                ):
                    break
            next_offset += 1
            if size == BLANK_UNIT_SIZE or next_offset - 1 in lost:  # those behind it are there
                if not count:
                    status = ReadStatus.MESSAGE_WAS_REMOVING
                continue
            if tags_code > HASH_MAX and has_hashes:
                return next_offset - 1
            if matches is not None and not matches(tags_code):
                # A client that wants tags compares them once more, so who is in doubt may pass.
                if tags_code > ADDRESS_MAX:
                    continue
                code = self._extension.code_at(topic, queue_id, tags_code)
                if code is not None and not matches(code):
                    continue
            if not min_physical <= physical_offset <= confirmed - size or size < RECORD_SIZE_MIN:
                return next_offset - 1
            if physical_offset % segment_size > segment_size - size:
                return next_offset - 1
            if wants is not None:
                if not healer.is_sound(queue, next_offset - 1):
                    return next_offset - 1
                if not wants(self.slices([(physical_offset, size)])[0]):
                    if not count:
                        status = ReadStatus.NO_MATCHED_MESSAGE
                    continue
            ranges.append((physical_offset, size))
            found_offsets.append(next_offset - 1)
            size_sum += size
            count += 1
            status = ReadStatus.FOUND
        cold = self._is_cold(ranges)
        if not cold and (unsound := healer.first_unsound(queue, ranges, found_offsets)) is not None:
            return unsound
        suggest_slave = log.written - physical_offset > self._memory_size
        return ReadResult(status, next_offset, low, high, ranges, size_sum, suggest_slave, cold, found_offsets, queue)

    def mended(self, found: ReadResult) -> ReadResult:
        """The same messages, at the places where they stand indeed; those that are lost are left out."""
        queue = found.queue
        if queue is None:
            return found
        if queue.unit_size != UNIT_SIZE:
            return self._batches.mended(found)
        healer = self._healer
        ranges: list[Range] = []
        offsets: list[int] = []
        for offset in found.offsets:
            healer.heal(queue, offset)
            unit = self._table.unit(queue, offset)
            if unit is not None and offset not in healer.lost(queue):
                ranges.append((unit[0], unit[1]))
                offsets.append(offset)
        return found._replace(ranges=ranges, size=sum(size for _, size in ranges), offsets=offsets)

    def slices(self, ranges: Sequence[Range]) -> list[memoryview]:
        """The records' bytes as views of the log; the ranges stand in its order."""
        segment_size = self._log.segment_size
        views: list[memoryview] = []
        start = end = -1
        view = memoryview(b"")
        if ranges and ranges[-1][0] < self._log.segment_end(ranges[0][0]):  # the usual pull: one segment has it all
            start = ranges[0][0] - ranges[0][0] % segment_size
            view = self._log.view_of(start)
            return [view[offset - start : offset - start + size] for offset, size in ranges]
        for offset, size in ranges:
            if not start <= offset < end:
                start = offset - offset % segment_size
                end = start + segment_size
                view = self._log.view_of(start)
            at = offset - start
            views.append(view[at : at + size])
        return views

    def load_found(self, found: ReadResult) -> list[bytes]:
        """The records' bytes, copied; those whose segment was deleted meanwhile are left out. Any thread.

        Raises `UnitsDoubted` if one is not that which the queue says: then `mended` tells where they are.
        """
        pairs, queue = self._pairs(found.ranges), found.queue
        if queue is not None and not queue.topic.startswith(LMQ_PREFIX):
            offset_of = dict(zip(found.ranges, found.offsets, strict=True))
            for one, piece in pairs:
                if not is_record(piece, one[1], queue.queue_id, offset_of[one]):
                    raise UnitsDoubted(f"{queue.folder}: message {offset_of[one]} is not where its unit says")
        return [piece for _, piece in pairs]

    def load(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes that stand there, copied; a range whose segment was deleted meanwhile is left out. Any thread."""
        return [piece for _, piece in self._pairs(merged(ranges, self._log.segment_size))]

    def _pairs(self, ranges: Sequence[Range]) -> list[tuple[Range, bytes]]:
        segment_size = self._log.segment_size
        found: list[tuple[Range, bytes]] = []
        fd, fd_start = -1, -1
        try:
            for close in together(ranges, segment_size):
                first, (last, last_size) = close[0][0], close[-1]
                at = first % segment_size
                if first - at != fd_start:
                    if fd >= 0:
                        self._fs.close(fd)
                        fd = -1
                    try:
                        fd = self._fs.open(segment_path(self._log.folder, first - at), read_only=True)
                    except FileNotFoundError:
                        continue
                    fd_start = first - at
                data = self._fs.pread(fd, last + last_size - first, at)
                found += [((offset, size), data[offset - first : offset - first + size]) for offset, size in close]
        finally:
            if fd >= 0:
                self._fs.close(fd)
        return found

    def record_at(self, physical_offset: int, size: int | None = None) -> memoryview | None:
        """The record that starts at `physical_offset`, if one does; an offset from outside may be anything."""
        head = self._log.slice(physical_offset, RECORD_SIZE_MIN)
        if head is None:
            return None
        total, magic = PREFIX.unpack_from(head, 0)
        if magic not in (MAGIC_V1, MAGIC_V2) or total < RECORD_SIZE_MIN or (size is not None and size != total):
            return None
        if _PHYSICAL_OFFSET.unpack_from(head, 28)[0] != physical_offset:
            return None
        return self._log.slice(physical_offset, total)


def memory_size(config: StoreConfig) -> int:
    """So much of the log's end counts as surely in memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return memory * config.access_message_in_memory_max_ratio // 100


def merged(ranges: Sequence[Range], segment_size: int) -> list[Range]:
    """Neighbouring ranges as one, but never across a segment's end."""
    if not ranges:
        return []
    found: list[Range] = []
    start, size = ranges[0]
    for offset, length in ranges[1:]:
        if offset == start + size and offset % segment_size:
            size += length
        else:
            found.append((start, size))
            start, size = offset, length
    found.append((start, size))
    return found


def together(ranges: Sequence[Range], segment_size: int) -> Iterator[list[Range]]:
    """Ranges of one segment so close to each other that one read brings them quicker than many do.

    To copy what stands between them costs less than another call; and after each call a thread has to wait for the
    interpreter, which the event loop then has to wait for.
    """
    close: list[Range] = []
    end = -1
    for offset, size in ranges:
        if close and (not 0 <= offset - end <= GAP_MAX or offset // segment_size != close[0][0] // segment_size):
            yield close
            close = []
        close.append((offset, size))
        end = offset + size
    if close:
        yield close
