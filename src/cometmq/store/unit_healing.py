"""Units of queues that name no record: found by who reads, and made again from the log.

A unit is *sound* if the record at its place says the same size, queue id and queue offset. Who hands out records looks
at that first (`first_unsound`), for bits flip on disks. One that is not sound is derived again: its record stands
behind that of the last sound unit before it, and before that of the next sound one. What is found goes into the queue's
file, with one warning. What is not found there is *lost*: deleted, or damaged in the log. Readers pass over it, and it
is not looked for again.

The walk holds up who asks, so it goes over `WALK_SIZE_MAX` bytes at most. Beyond that `QueueDamaged` is raised, and the
next round of maintenance walks in its thread: who asks again later gets the record.

Of a unit's tags code only what no hash can be is told: to compare it, a read would have to parse properties.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from cometmq import compiled
from cometmq.errors import QueueDamaged, StoreError
from cometmq.model import properties
from cometmq.model.java_hash import tags_code
from cometmq.model.names import LMQ_PREFIX, SCHEDULE_TOPIC
from cometmq.model.sysflag import TRANSACTION_UNSEEN
from cometmq.store.commit_log import CommitLog, Range
from cometmq.store.consume_queue import BLANK_UNIT_SIZE, UNIT, ConsumeQueue
from cometmq.store.damage import sound_behind
from cometmq.store.delivery_time import DeliveryTimes
from cometmq.store.log_walk import FoundTuple, Walk, WalkEnd
from cometmq.store.queue_table import QueueTable
from cometmq.wire.record import RECORD_SIZE_MIN, Buffer

WALK_SIZE_MAX: Final = 64 << 20
LOOK_MAX: Final = 1000  # so many units are looked at on each side for a sound one
LOST_MAX: Final = 100_000  # lost messages that are remembered
WAITING_MAX: Final = 1000

HASH_MAX: Final = 0x7FFF_FFFF  # of tags; no queue holds more but that of delayed messages
NONE_LOST: Final = frozenset[int]()

HEAD: Final = Struct(">i8xi4xq")  # of a record: size, queue id, queue offset

log = logging.getLogger("cometmq.store")


def is_record(data: Buffer, size: int, queue_id: int, queue_offset: int) -> bool:
    """Whether these bytes are, by their head, the record that a unit names."""
    return len(data) == size >= RECORD_SIZE_MIN and HEAD.unpack_from(data) == (size, queue_id, queue_offset)


def sound_ranges_in_python(
    view: memoryview, start: int, ranges: list[Range], offsets: Sequence[int], number: int, end: int, queue_id: int
) -> int:
    """Number of the first of these ranges, from that of `number` on, at which not the record of its offset stands.

    `view` shows the log from `start` to `end`; what is not within is none.
    """
    while number < len(ranges):
        at, size = ranges[number]
        if size < RECORD_SIZE_MIN or not start <= at <= end - size:
            break
        if HEAD.unpack_from(view, at - start) != (size, queue_id, offsets[number]):
            break
        number += 1
    return number


_sound_ranges: Final = compiled.twin("sound_ranges", sound_ranges_in_python)


class Search(NamedTuple):
    """Where in the log the records of these queue offsets stand, if they do."""

    queue: ConsumeQueue
    wanted: range
    start: int
    end: int


class UnitHealer:
    """Tells whether units are sound, and mends those that are not; on the owner's thread."""

    def __init__(self, commit_log: CommitLog, table: QueueTable, delay_levels: str) -> None:
        self._log = commit_log
        self._table = table
        self._delivery_times = DeliveryTimes(delay_levels)
        self._lost: dict[ConsumeQueue, set[int]] = {}
        self._lost_count = 0
        self._waiting: dict[tuple[ConsumeQueue, int], Search] = {}

    # Telling

    def first_unsound(self, queue: ConsumeQueue, ranges: list[Range], offsets: Sequence[int]) -> int | None:
        """The first of these messages whose record does not stand where the queue says; None if all do."""
        if queue.topic.startswith(LMQ_PREFIX):
            return None  # their records stand in other queues, too, and name one of these
        commit_log = self._log
        number, confirmed = 0, commit_log.confirm_offset
        while number < len(ranges):
            segment = commit_log.segment_of(ranges[number][0])
            if segment is None:
                return offsets[number]
            start = segment.start
            view, end = commit_log.view_of(start), min(confirmed, segment.end)
            reached = _sound_ranges(view, start, ranges, offsets, number, end, queue.queue_id)
            if reached == number:
                return offsets[number]
            number = reached
        return None

    def is_sound(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether the unit names its record."""
        unit = self._table.unit(queue, offset)
        if unit is None or (unit[2] > HASH_MAX and queue.topic != SCHEDULE_TOPIC):
            return False
        return self.first_unsound(queue, [(unit[0], unit[1])], (offset,)) is None

    def lost(self, queue: ConsumeQueue) -> Container[int]:
        """The messages of a queue that were looked for in vain."""
        return self._lost.get(queue, NONE_LOST)

    # Mending

    def heal(self, queue: ConsumeQueue, offset: int) -> None:
        """Make the unit again, and others that are not sound beside it; else the message is lost from now on."""
        if offset in self.lost(queue) or self.is_sound(queue, offset):
            return
        search = self._search(queue, offset)
        if search.end - search.start > WALK_SIZE_MAX:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.setdefault((queue, search.wanted[0]), search)
            raise QueueDamaged(
                f"{queue.path_of(offset)}: the unit of message {offset} of queue {queue.queue_id} of {queue.topic} is "
                f"damaged, and its message is looked for in {search.end - search.start:,} bytes of the log: try again "
                "in a while. `cometmq store repair` mends the file while the broker is stopped"
            )
        self._take(search, found_units(self._log, search, self._delivery_times))

    def _search(self, queue: ConsumeQueue, offset: int) -> Search:
        first, last = offset, offset + 1
        start, end = self._log.min_offset, self._log.confirm_offset
        low = max(queue.min_offset, offset - LOOK_MAX)
        high = min(queue.max_offset, offset + LOOK_MAX)
        while first > low and not self.is_sound(queue, first - 1):
            first -= 1
        if first > low:
            before = self._table.unit(queue, first - 1)
            start = before[0] + before[1] if before is not None else start
        while last < high and not self.is_sound(queue, last):
            last += 1
        if last < high:
            behind = self._table.unit(queue, last)
            end = behind[0] if behind is not None else end
        return Search(queue, range(first, last), start, end)

    def _take(self, search: Search, found: dict[int, bytes]) -> None:
        """Put what was found into the queue, and remember what was not."""
        queue = search.queue
        if not queue.alive:
            return
        mended: list[int] = []
        lost: list[int] = []
        for offset in search.wanted:
            unit = found.get(offset)
            old = self._table.unit(queue, offset)
            if old is None or (unit is None and old[1] == BLANK_UNIT_SIZE):
                continue
            if unit is None:
                if not self.is_sound(queue, offset) and offset not in self.lost(queue):
                    lost.append(offset)
            elif unit != UNIT.pack(*old):
                self._correct(queue, offset, unit)
                mended.append(offset)
        if mended:
            log.warning(
                "%s: %s of queue %d of %s did not name what stands in the log, and %s written anew",
                queue.path_of(mended[0]), _units_text(mended), queue.queue_id, queue.topic,
                "is" if len(mended) == 1 else "are",
            )  # fmt: skip
        if lost:
            self._note_lost(queue, lost)
            log.warning(
                "%s: %s of queue %d of %s name no message, and between offsets %d and %d of the log there is none that "
                "they could name: readers pass over them. `cometmq store repair` tells more",
                queue.path_of(lost[0]), _units_text(lost), queue.queue_id, queue.topic, search.start, search.end,
            )  # fmt: skip

    def _correct(self, queue: ConsumeQueue, offset: int, unit: bytes) -> None:
        try:
            self._table.correct(queue, offset, unit)
        except OSError as error:
            raise StoreError(
                f"{queue.path_of(offset)}: the unit of message {offset} is damaged and cannot be written anew: "
                f"{error.strerror}; check the disk, then run `cometmq store repair`"
            ) from error

    def _note_lost(self, queue: ConsumeQueue, offsets: Sequence[int]) -> None:
        if self._lost_count + len(offsets) > LOST_MAX:
            self._lost.clear()
            self._lost_count = 0
        self._lost_count += len(offsets)
        self._lost.setdefault(queue, set()).update(offsets)

    # In the background

    def prepare(self) -> BackgroundSearch | None:
        """The searches that were too long for those who asked; None if there are none."""
        if not self._waiting:
            return None
        return BackgroundSearch(self._log.reading_copy(), list(self._waiting.items()), self._delivery_times)

    def finish(self, job: BackgroundSearch) -> None:
        """Take over what was found."""
        for key, search in job.searches:
            found = job.found.get(key)
            if found is not None:
                del self._waiting[key]
                self._take(search, found)


class BackgroundSearch:
    """Walks in any thread."""

    def __init__(
        self,
        commit_log: CommitLog,
        searches: list[tuple[tuple[ConsumeQueue, int], Search]],
        delivery_times: DeliveryTimes,
    ) -> None:
        self._log = commit_log
        self._delivery_times = delivery_times
        self.searches = searches
        self.found: dict[tuple[ConsumeQueue, int], dict[int, bytes]] = {}

    def run(self) -> None:
        for key, search in self.searches:
            with suppress(OSError):  # retention was faster: those that ask will ask again
                self.found[key] = found_units(self._log, search, self._delivery_times)


def found_units(commit_log: CommitLog, search: Search, delivery_times: DeliveryTimes) -> dict[int, bytes]:
    """Units of the wanted messages that stand in this part of the log, by their offsets."""
    queue, wanted, start, end = search
    return {
        record[3]: UNIT.pack(place, record[1], code_of(queue.topic, record, delivery_times))
        for place, record in records_between(commit_log, queue, start, end)
        if record[3] in wanted
    }


def records_between(commit_log: CommitLog, queue: ConsumeQueue, at: int, end: int) -> Iterator[tuple[int, FoundTuple]]:
    """Each message of a queue that stands in this part of the log, with its place."""
    topic = queue.topic.encode()
    while at < end:
        segment = commit_log.segment_of(at)
        if segment is None:
            at = commit_log.segment_end(at)
            continue
        walk = Walk(commit_log.view_of(segment.start), segment.start, at - segment.start, check_crc=False)
        while found := walk.batch():
            for record in found:
                place = segment.start + record[0]
                if place >= end:
                    return
                if record[6] == topic and record[2] == queue.queue_id and not record[4] & TRANSACTION_UNSEEN:
                    yield place, record
        if walk.end is WalkEnd.NEXT_SEGMENT:
            at = segment.end
        else:  # damaged here: the log goes on behind
            at = next((place for place, _ in sound_behind(commit_log, segment.start + walk.at)), end)


def code_of(topic: str, record: FoundTuple, delivery_times: DeliveryTimes) -> int:
    """What the unit of a record holds beside its place."""
    found = properties.parse(str(record[7], "utf-8", "replace"))
    code = tags_code(found.get(properties.TAGS))
    if topic == SCHEDULE_TOPIC and properties.DELAY in found:
        return delivery_times.tags_code(found[properties.DELAY], record[5], code)
    return code


def _units_text(offsets: Sequence[int]) -> str:
    if len(offsets) == 1:
        return f"unit {offsets[0]}"
    return f"{len(offsets)} units from {offsets[0]} to {offsets[-1]}"
