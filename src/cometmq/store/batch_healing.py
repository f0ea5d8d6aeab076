"""Units of batch queues that name no record, made again from the log: what `unit_healing` is for plain queues.

A unit is found by search, so a damaged one may also hide others. Whoever reads checks what was found (`agrees`): the
first unit covers the message that was asked for, each begins where the one before it ends, and their records say the
same. If not, all units of the queue are held against the log (`heal`), and those between two sound ones are written
anew if the log has as many records there. What does not agree even then is odd and stays so: batches were lost.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from cometmq.errors import QueueDamaged
from cometmq.model import properties
from cometmq.model.java_hash import tags_code
from cometmq.store.batch_queue import BATCH_UNIT, BATCH_UNIT_SIZE, BatchQueue, BatchQueues, count_of
from cometmq.store.commit_log import CommitLog
from cometmq.store.log_walk import FoundTuple
from cometmq.store.unit_healing import UnitHealer, records_between
from cometmq.wire.record import RECORD_SIZE_MIN

WALK_SIZE_MAX: Final = 1 << 30
ODD_MAX: Final = 10_000  # units that are remembered to be as they are

log = logging.getLogger("cometmq.store")


class BatchHealer:
    """Tells whether units of batches are sound, and mends those that are not."""

    def __init__(self, commit_log: CommitLog, batches: BatchQueues, healer: UnitHealer) -> None:
        self._log = commit_log
        self._batches = batches
        self._table = batches.table
        self._healer = healer
        self._odd: set[tuple[BatchQueue, int]] = set()

    def agrees(self, queue: BatchQueue, offset: int, number: int, units: bytes, *, cold: bool) -> bool:
        """Whether these units, from `number` on, are what a read from `offset` on may believe."""
        expected = -1
        for at, (place, size, _, _, base, count, _, _) in enumerate(BATCH_UNIT.iter_unpack(units), number):
            fits = base == expected if at > number else base <= offset < base + count
            inside = size >= RECORD_SIZE_MIN and self._log.min_offset <= place <= self._log.confirm_offset - size
            right = fits and inside and (cold or self.is_record(queue, place, size, base))
            if not right and (queue, at) not in self._odd:
                return False
            expected = base + count
        last = number + len(units) // BATCH_UNIT_SIZE - 1
        behind = self._table.unit(queue.units, last + 1)
        return behind is None or behind[4] == expected or (queue, last) in self._odd

    def is_record(self, queue: BatchQueue, place: int, size: int, base: int) -> bool:
        """Whether the record of this batch stands there."""
        return self._healer.first_unsound(queue.units, [(place, size)], (base,)) is None

    def heal_first(self) -> None:
        """Look at the first unit of each queue, which says where the queue begins."""
        for queue in self._batches.queues.values():
            if queue.units.min_offset < queue.units.max_offset and not self._is_sound(queue, queue.units.min_offset):
                with suppress(QueueDamaged):  # who reads it is told
                    self.heal(queue)

    def heal(self, queue: BatchQueue) -> None:
        """Hold all units against the log."""
        units, low, high = queue.units, queue.units.min_offset, queue.units.max_offset
        number, before_end = low, self._log.min_offset
        while number < high:
            if self._is_sound(queue, number):
                place, size = (self._table.unit(units, number) or (0, 0))[:2]
                number, before_end = number + 1, place + size
                continue
            first = number
            while number < high and not self._is_sound(queue, number):
                number += 1
            behind = self._table.unit(units, number)
            self._mend(queue, range(first, number), before_end, behind[0] if behind else self._log.confirm_offset)
        self._batches.count_messages()

    def _is_sound(self, queue: BatchQueue, number: int) -> bool:
        unit, behind = self._table.unit(queue.units, number), self._table.unit(queue.units, number + 1)
        if unit is None or not self.is_record(queue, unit[0], unit[1], unit[4]):
            return False
        end = queue.end_offset if behind is None else behind[4]
        if unit[4] + unit[5] == end:
            return True  # else this one counts wrong, if the next one does not say wrong where it begins
        return behind is not None and not self.is_record(queue, behind[0], behind[1], behind[4])

    def _mend(self, queue: BatchQueue, wanted: range, start: int, end: int) -> None:
        path = queue.units.path_of(wanted[0])
        if end - start > WALK_SIZE_MAX:
            raise QueueDamaged(
                f"{path}: unit {wanted[0]} of queue {queue.queue_id} of {queue.topic} is damaged, and the log would "
                f"have to be searched over {end - start:,} bytes for its batch: reset the offsets of its consumers to "
                "go on behind it"
            )
        found = list(records_between(self._log, queue, start, end))
        right = [unit_of(place, record) for place, record in found] if len(found) == len(wanted) else []
        changed = 0
        for number, unit in zip(wanted, right, strict=False):
            if BATCH_UNIT.pack(*(self._table.unit(queue.units, number) or (0,) * 8)) != unit:
                self._table.correct(queue.units, number, unit)
                changed += 1
        if changed:
            log.warning("%s: %d units, from %d on, did not name what stands in the log, and were written anew",
                        path, changed, wanted[0])  # fmt: skip
        if len(self._odd) > ODD_MAX:
            self._odd.clear()
        self._odd.update((queue, number) for number in range(wanted[0], wanted[-1] + 2))


def unit_of(place: int, record: FoundTuple) -> bytes:
    """The unit that names a record."""
    found = properties.parse(str(record[7], "utf-8", "replace"))
    code = tags_code(found.get(properties.TAGS))
    unit = BATCH_UNIT.pack(place, record[1], code, record[5], record[3], count_of(found), -1, 0)
    assert len(unit) == BATCH_UNIT_SIZE
    return unit
