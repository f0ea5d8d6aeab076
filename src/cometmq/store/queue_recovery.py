"""Where the files of a queue end, and cutting what points behind the log's end. For units of any layout.

Mirrors: ConsumeQueue.recover, truncateDirtyLogicFiles, and those of BatchConsumeQueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final

from cometmq.store.consume_queue import BLANK_UNIT, BLANK_UNIT_SIZE, UNIT, ConsumeQueue
from cometmq.store.queue_table import QueueTable
from cometmq.wire.record import RECORD_SIZE_MIN

SCAN_UNITS: Final = 4096
DOUBTED_UNITS_MAX: Final = 1000  # if that many do not fit, the whole queue is replayed
NAMED_UNITS: Final = 32  # of each queue, to see whether they are in order
SUSPECT_FILES: Final = 3  # the last files of a queue are read unit by unit after a kill


# Size, queue id and queue offset of the record at a place of the log; None where the log begins later.
RecordHead = Callable[[int], "tuple[int, int, int] | None"]


class Files(Enum):
    """What the files of a queue are like. They come with their first unit and go with their last, so one that has none
    is damaged, or its creator died; where there are none, the queue is new or was deleted."""

    NONE = auto()
    WHOLE = auto()
    SPOILT = auto()  # something stands behind the end, or the last file is empty
    EMPTY = auto()  # no unit at all
    HOLED = auto()  # one is missing between others or too short; only what stands before it is loaded


def find_end(table: QueueTable, queue: ConsumeQueue, *, clean: bool, log_begin: int) -> Files:
    """Load what the files hold; after a kill, zero what stands behind. Empty files stay, until the queue is rebuilt:
    nothing else tells it from a deleted one. So do those behind a hole."""
    starts = table.starts(queue)
    named = [*starts, *table.too_short[queue]]
    if not named:
        return Files.NONE
    first, last = _run(table, queue, starts, min(named), log_begin)
    holed = last < max(named)
    end = _find_end(table, queue, first, last, clean=clean and not holed) if last >= 0 else first
    queue.load(first, end)
    if not holed and end == first:
        return Files.EMPTY
    if end > first and table.units(queue, queue.max_offset - 1, 1) != BLANK_UNIT:
        queue.max_physical = sum(last_place(table, queue))
    else:
        queue.max_physical = -1
    if holed:
        if queue.max_physical <= log_begin:
            queue.load(0, 0)  # nothing of it is in the log: the queue may begin anywhere behind the hole
            queue.max_physical = -1
        return Files.HOLED
    spoilt = end <= last or any(table.file_units(queue, end, 1))
    if not clean:
        table.cut(queue, end)
    return Files.SPOILT if spoilt else Files.WHOLE


def _run(table: QueueTable, queue: ConsumeQueue, starts: list[int], begin: int, log_begin: int) -> tuple[int, int]:
    """The first and the last of the files that stand together from `begin` on; (0, -1) if there is a hole at once.

    A hole does not count if the unit behind it names the first message of the log, or an older one.
    """
    first, last = 0, -1
    for start in starts:
        if start > (begin if last < 0 else last + queue.file_units):
            place, size, *_ = table.layout.unpack(table.file_units(queue, start, 1))
            if size <= 0 or not 0 <= place <= log_begin:
                break
            first = start
        elif last < 0:
            first = start
        last = start
    return first, last


def _find_end(table: QueueTable, queue: ConsumeQueue, first: int, last: int, *, clean: bool) -> int:
    """The unit behind the last one of these files."""
    if clean:
        end = last
        while (count := _count_sorted(table, queue, end)) == 0 and end > first:
            end -= queue.file_units
        return end + count
    end = max(first, last - (SUSPECT_FILES - 1) * queue.file_units)
    while end <= last:
        count = _count_linear(table, queue, end)
        end += count
        if count < queue.file_units:
            break
    return end


def doubt_end(table: QueueTable, queue: ConsumeQueue, record_head: RecordHead) -> bool:
    """Whether the last unit does not fit the record it names; then `max_physical` is that of the last which does.

    The unit stays: if its record is found in the log, replay puts it again, and if not, nobody can say which of the two
    is wrong. Only among batches, which replay would all put again, it goes at once.
    """
    if queue.max_offset == queue.first_offset:
        return False
    of_batches = table.layout is not UNIT
    for offset in range(queue.max_offset - 1, max(queue.max_offset - DOUBTED_UNITS_MAX, queue.first_offset) - 1, -1):
        unit = table.unit(queue, offset)
        if unit is None or unit[1] == BLANK_UNIT_SIZE:
            return False
        before = table.unit(queue, offset - 1)
        head = record_head(unit[0])
        ordered = before is None or before[1] == BLANK_UNIT_SIZE or unit[0] >= before[0] + before[1]
        if ordered and (head is None or head == (unit[1], queue.queue_id, unit[4] if of_batches else offset)):
            queue.max_physical = unit[0] + unit[1]
            doubted = offset < queue.max_offset - 1
            if doubted and of_batches:
                table.cut(queue, offset + 1)
            return doubted
    queue.max_physical = -1
    if of_batches:
        table.cut(queue, 0)
    return True


def named_behind(queues: Iterable[tuple[QueueTable, ConsumeQueue]], end: int, segment_size: int) -> int:
    """How far the messages reach that queues name at or behind `end`, where the log seems to end; 0 if there are none.

    One unit may itself be what is damaged: it is believed if it names exactly `end`, else two are wanted.
    """
    found: list[tuple[int, int]] = []
    for table, queue in queues:
        of_queue: list[tuple[int, int]] = []
        before = 1 << 62
        for offset in range(queue.max_offset - 1, max(queue.max_offset - NAMED_UNITS, queue.first_offset) - 1, -1):
            place, size = _place(table, queue, offset)
            if place < end or size == BLANK_UNIT_SIZE:
                break
            if size < RECORD_SIZE_MIN or place + size > min(before, place - place % segment_size + segment_size):
                of_queue = []  # no log is like that
                break
            of_queue.append((place, size))
            before = place
        found += of_queue
    believed = len(found) > 1 or any(place == end for place, _ in found)
    return max(place + size for place, size in found) if believed else 0


def last_place(table: QueueTable, queue: ConsumeQueue) -> tuple[int, int]:
    """Physical offset and size of what the last unit points to."""
    return _place(table, queue, queue.max_offset - 1)


def cut_behind(table: QueueTable, queue: ConsumeQueue, end: int, record_head: RecordHead, read_from: int) -> None:
    """Drop the units that point behind the log's end, and what are none: bits that flipped behind the last one, and
    units of messages that were torn, which Java leaves there. From `read_from` on the log was read and is whole."""
    offset = queue.max_offset
    while offset > queue.first_offset:
        physical_offset, size = _place(table, queue, offset - 1)
        if physical_offset + size <= end and _may_be_unit(table, queue, offset - 1, record_head, read_from):
            queue.max_physical = physical_offset + size
            break
        offset -= 1
    else:
        queue.max_physical = -1
    table.cut(queue, offset)


def _may_be_unit(table: QueueTable, queue: ConsumeQueue, offset: int, record_head: RecordHead, read_from: int) -> bool:
    """Whether a message may have stood there: one stands there, or the unit is in order behind another one.

    Where the log was read, something of its size must stand there; a bit of its queue or offset may have flipped.
    """
    unit, before = table.unit(queue, offset), table.unit(queue, offset - 1)
    if unit is None or unit[1] < RECORD_SIZE_MIN:
        return False
    head = record_head(unit[0])
    wanted = (unit[1], queue.queue_id, unit[4] if table.layout is not UNIT else offset)
    if before is None or before[1] == BLANK_UNIT_SIZE:
        ordered = True
    else:
        ordered = before[1] >= RECORD_SIZE_MIN and unit[0] >= before[0] + before[1]
    if head is None or head == wanted:
        return True
    resembles = head[0] == wanted[0] and (head[1] == wanted[1] or head[2] == wanted[2])
    return ordered and (unit[0] < read_from or resembles)


def _place(table: QueueTable, queue: ConsumeQueue, offset: int) -> tuple[int, int]:
    unit = table.unit(queue, offset)
    return (-1, 0) if unit is None else (unit[0], unit[1])


def _count_sorted(table: QueueTable, queue: ConsumeQueue, start: int) -> int:
    """Units in a file that is whole: found by halving."""
    low, high = 0, queue.file_units
    while low < high:
        middle = (low + high) // 2
        data = table.file_units(queue, start + middle, 1)
        if data and table.layout.unpack(data)[1] > 0:
            low = middle + 1
        else:
            high = middle
    return low


def _count_linear(table: QueueTable, queue: ConsumeQueue, start: int) -> int:
    """Units in a file that may be torn: up to the first that is none, or only the beginning of one."""
    count, mark = 0, table.mark
    while count < queue.file_units:
        data = table.file_units(queue, start + count, min(SCAN_UNITS, queue.file_units - count))
        if not data:
            return count
        for unit in table.layout.iter_unpack(data):
            if unit[0] < 0 or unit[1] <= 0 or (mark is not None and unit[mark[0]] != mark[1]):
                return count
            count += 1
    return count
