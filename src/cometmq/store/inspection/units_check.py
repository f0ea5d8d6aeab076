"""Do the queues hold, for every message of the log, the unit that names it?

What a unit must be follows from the record alone, so a wrong one can be put right: `on_wrong` is told where.
Units of queues of batches are not compared; their end is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cometmq.errors import StoreError
from cometmq.store.append import Entry
from cometmq.store.batch_queue import BatchQueue
from cometmq.store.consume_queue import UNIT, UNIT_SIZE, ConsumeQueue
from cometmq.store.inspection.findings import Report
from cometmq.store.inspection.folder import Folder
from cometmq.store.inspection.table_check import topics_of
from cometmq.store.queue_recovery import find_end, last_place

QUEUES: Final = "consumequeue"
RUN_MAX: Final = 4096  # units that are compared at once
NAMED_MAX: Final = 20  # queues that are named in a report

OnWrong = Callable[[ConsumeQueue, int, bytes], None]  # queue, unit, the bytes that should stand there

_NO_UNIT: Final = bytes(UNIT_SIZE)


class Tally:
    """What was found out about one queue."""

    __slots__ = ("lacking", "lacking_from", "right", "start", "wanted", "wrong", "wrong_from")

    def __init__(self) -> None:
        self.start = 0  # first unit of `wanted`
        self.wanted = bytearray()
        self.right = self.wrong = self.lacking = 0
        self.wrong_from = self.lacking_from = -1  # unit; place in the log


class UnitsCheck:
    """Given the records in the order of the log, as dispatch would be."""

    def __init__(self, folder: Folder, on_wrong: OnWrong | None) -> None:
        self._folder = folder
        self._table = folder.queues
        self._on_wrong = on_wrong
        self._tallies: dict[ConsumeQueue, Tally] = {}
        self.unwritten_units = 0
        self._topics = topics_of(folder)
        self._on_disk: set[ConsumeQueue] = set()
        self._faults: list[str] = []
        for table in (folder.queues, folder.batches.table):
            for queue in table.queues.values():
                try:
                    if table.starts(queue):
                        self._on_disk.add(queue)
                except StoreError as fault:
                    self._faults.append(str(fault))

    def replay(self, entries: list[Entry]) -> None:
        """Note what the queues must hold."""
        for _, queue, physical_offset, size, code, queue_offset, *_ in entries:
            if queue_offset < 0 or isinstance(queue, BatchQueue):
                continue
            tally = self._tallies.get(queue)
            if tally is None:
                tally = self._tallies[queue] = Tally()
            count = len(tally.wanted) // UNIT_SIZE
            if queue_offset != tally.start + count or count >= RUN_MAX:
                self._compare(queue, tally)
                tally.start = queue_offset
            tally.wanted += UNIT.pack(physical_offset, size, code)

    def _compare(self, queue: ConsumeQueue, tally: Tally) -> None:
        wanted, tally.wanted = bytes(tally.wanted), bytearray()
        offset = tally.start
        while wanted:
            count = min(len(wanted) // UNIT_SIZE, queue.file_end(offset) - offset)
            part, wanted = wanted[: count * UNIT_SIZE], wanted[count * UNIT_SIZE :]
            there = self._table.file_units(queue, offset, count).ljust(len(part), b"\0")
            if there == part:
                tally.right += count
            else:
                self._compare_each(queue, tally, offset, part, there)
            offset += count

    def _compare_each(self, queue: ConsumeQueue, tally: Tally, offset: int, part: bytes, there: bytes) -> None:
        for number, at in enumerate(range(0, len(part), UNIT_SIZE), offset):
            unit, found = part[at : at + UNIT_SIZE], there[at : at + UNIT_SIZE]
            if unit == found:
                tally.right += 1
                continue
            if found == _NO_UNIT:
                tally.lacking += 1
                if tally.lacking_from < 0:
                    tally.lacking_from = UNIT.unpack(unit)[0]
            else:
                tally.wrong += 1
                if tally.wrong_from < 0:
                    tally.wrong_from = number
            if self._on_wrong is not None and (queue in self._on_disk or queue.topic in self._topics):
                self._on_wrong(queue, number, unit)

    def finish(self, report: Report, log_end: int) -> None:
        """Say what was found."""
        replayed_from = self._replayed_from()
        deleted = right = 0
        wrong: list[str] = []
        late = 0
        for queue, tally in self._tallies.items():
            self._compare(queue, tally)
            right += tally.right
            name = f"{queue.topic}/{queue.queue_id}"
            if tally.wrong:
                wrong.append(f"{name} has {tally.wrong} wrong units, the first is number {tally.wrong_from}")
            if not tally.lacking:
                continue
            if queue not in self._on_disk and queue.topic not in self._topics and replayed_from:
                deleted += tally.lacking
            elif tally.lacking_from >= replayed_from:
                late += tally.lacking
            else:
                wrong.append(f"{name} lacks the units of {tally.lacking} messages")
        report.summary[QUEUES] = f"{len(self._on_disk)} queues, {right:,} units name their messages"
        wrong = self._faults + wrong
        for text in wrong[:NAMED_MAX]:
            report.fault(QUEUES, text)
        if len(wrong) > NAMED_MAX:
            report.fault(QUEUES, f"and {len(wrong) - NAMED_MAX} more queues")
        if late:
            report.note(QUEUES, f"{late:,} units are missing, and the next start adds them")
        if deleted:
            report.note(QUEUES, f"{deleted:,} messages are of topics that were deleted")
        self._find_ahead(report, log_end)

    def _replayed_from(self) -> int:
        """From where on the next start brings messages to the queues that lack them."""
        folder = self._folder
        if not folder.fs.exists(folder.config.consume_queue_dir):
            return 0
        if folder.stopped_cleanly:
            return folder.log.end
        vouched = folder.checkpoint.logics_physical_offset
        return folder.log.segment_start(vouched) if vouched > 0 else 0

    def _find_ahead(self, report: Report, log_end: int) -> None:
        for table in (self._table, self._folder.batches.table):
            for queue in table.queues.values():
                if queue not in self._on_disk:
                    continue
                find_end(table, queue, clean=True)
                if queue.max_offset > queue.first_offset and sum(last_place(table, queue)) > log_end:
                    report.note(
                        QUEUES,
                        f"{queue.topic}/{queue.queue_id} names messages behind the log's end: the next start cuts them",
                    )
