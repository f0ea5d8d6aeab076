"""Do the queues hold, for every message of the log, the unit that names it?

What a unit must be follows from the record alone, so a wrong one can be put right: `wanted` tells where. A queue whose
offsets begin again was deleted and made again, and only its last life counts: replay, too, cuts what was there before.
Units of queues of batches are not compared; their end is.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from cometmq.errors import StoreError
from cometmq.store.append import Entry
from cometmq.store.batch_queue import BatchQueue
from cometmq.store.consume_queue import UNIT, UNIT_SIZE, ConsumeQueue
from cometmq.store.inspection.findings import Report
from cometmq.store.inspection.folder import Folder
from cometmq.store.inspection.table_check import topics_of
from cometmq.store.queue_recovery import Files, find_end, last_place

QUEUES: Final = "consumequeue"
RUN_MAX: Final = 4096  # units that are compared at once
NAMED_MAX: Final = 20  # queues that are named in a report
UNITS_KEPT_MAX: Final = 10_000_000  # wrong units that one repair puts right

_NO_UNIT: Final = bytes(UNIT_SIZE)


class Kind(Enum):
    """How units are."""

    RIGHT = auto()
    WRONG = auto()
    LACKING = auto()


class Run:
    """Units `[start, end)` of one kind; what they must be, if it is kept."""

    __slots__ = ("end", "kind", "place", "start", "units")

    def __init__(self, kind: Kind, start: int, place: int) -> None:
        self.kind = kind
        self.start = self.end = start
        self.place = place  # in the log, of the first
        self.units = bytearray()


class Tally:
    """What was found out about the life of one queue that came last."""

    __slots__ = ("lives", "runs", "start", "wanted")

    def __init__(self) -> None:
        self.start = 0  # first unit of `wanted`
        self.wanted = bytearray()
        self.runs: list[Run] = []
        self.lives = 1

    def add(self, kind: Kind, offset: int, count: int, unit: bytes) -> Run:
        """Count units of a kind; `unit` is what the first of them must be."""
        if not self.runs or self.runs[-1].kind is not kind or self.runs[-1].end != offset:
            self.runs.append(Run(kind, offset, UNIT.unpack(unit)[0]))
        run = self.runs[-1]
        run.end += count
        return run

    def cut(self, offset: int) -> None:
        """Forget the units from `offset` on."""
        while self.runs and self.runs[-1].start >= offset:
            self.runs.pop()
        if self.runs and self.runs[-1].end > offset:
            self.runs[-1].end = offset
            del self.runs[-1].units[(offset - self.runs[-1].start) * UNIT_SIZE :]

    def of(self, kind: Kind) -> list[Run]:
        return [run for run in self.runs if run.kind is kind]

    def count(self, kind: Kind) -> int:
        return sum(run.end - run.start for run in self.of(kind))


class UnitsCheck:
    """Given the records in the order of the log, as dispatch would be."""

    def __init__(self, folder: Folder, *, keep_wanted: bool = False) -> None:
        self._folder = folder
        self._table = folder.queues
        self._room = UNITS_KEPT_MAX if keep_wanted else 0
        self._tallies: dict[ConsumeQueue, Tally] = {}
        self.unwritten_units = 0
        self._topics = topics_of(folder)
        self._reborn: dict[str, tuple[int, int]] = {}  # topics made again: which life that is, and where it begins
        self._on_disk: set[ConsumeQueue] = set()
        self._faults: list[str] = []
        for table in (folder.queues, folder.batches.table):
            for queue in table.queues.values():
                try:
                    if table.starts(queue) or table.too_short[queue]:
                        self._on_disk.add(queue)
                except StoreError as fault:
                    self._faults.append(str(fault))

        self._faults += [f"{path} has {length} bytes, and others have more" for path, length in self.too_short()]

    def too_short(self) -> list[tuple[str, int]]:
        """Files of queues that lack their end, and what they have."""
        found = self._table.too_short.items()
        return [(queue.path_of(start), length) for queue, short in found for start, length in short.items()]

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
                if queue_offset < tally.start + count:
                    tally.cut(queue_offset)
                    if queue_offset == 0:
                        tally.lives += 1
                        last = self._reborn.get(queue.topic, (0, 0))
                        self._reborn[queue.topic] = max(last, (tally.lives, physical_offset))
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
                tally.add(Kind.RIGHT, offset, count, part[:UNIT_SIZE])
            else:
                self._compare_each(tally, offset, part, there)
            offset += count

    def _compare_each(self, tally: Tally, offset: int, part: bytes, there: bytes) -> None:
        for number, at in enumerate(range(0, len(part), UNIT_SIZE), offset):
            unit, found = part[at : at + UNIT_SIZE], there[at : at + UNIT_SIZE]
            if unit == found:
                tally.add(Kind.RIGHT, number, 1, unit)
                continue
            run = tally.add(Kind.LACKING if found == _NO_UNIT else Kind.WRONG, number, 1, unit)
            if self._room:
                self._room -= 1
                run.units += unit

    def finish(self, report: Report, log_end: int) -> None:
        """Say what was found."""
        replayed_from = self._replayed_from()
        deleted = right = late = 0
        wrong: list[str] = []
        for queue, tally in self._tallies.items():
            self._compare(queue, tally)
        for queue, tally in self._tallies.items():
            right += tally.count(Kind.RIGHT)
            name = f"{queue.topic}/{queue.queue_id}"
            if count := tally.count(Kind.WRONG):
                first = tally.of(Kind.WRONG)[0].start
                wrong.append(f"{name} has {count} wrong units, the first is number {first}")
            if not (lacking := tally.count(Kind.LACKING)):
                continue
            if replayed_from and self._was_deleted(queue, tally):
                deleted += lacking
            elif tally.of(Kind.LACKING)[0].place >= replayed_from:
                late += lacking
            else:
                wrong.append(f"{name} lacks the units of {lacking} messages")
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

    def wanted(self) -> Iterator[tuple[ConsumeQueue, int, bytes]]:
        """The units that are not as they must be: queue, number, what must stand there. Once all was compared."""
        for queue, tally in self._tallies.items():
            if not self._was_deleted(queue, tally):
                for run in tally.runs:
                    for at in range(0, len(run.units), UNIT_SIZE):
                        yield queue, run.start + at // UNIT_SIZE, bytes(run.units[at : at + UNIT_SIZE])

    def _was_deleted(self, queue: ConsumeQueue, tally: Tally) -> bool:
        """Whether no file of a queue is there because its topic was deleted, and made again without it perhaps."""
        if queue in self._on_disk:
            return False
        if queue.topic not in self._topics:
            return True
        lives, begin = self._reborn.get(queue.topic, (0, 0))
        return tally.lives < lives and tally.runs[0].place < begin

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
                files = find_end(table, queue, clean=True, log_begin=self._folder.log.min_offset)
                if files is Files.HOLED:
                    report.note(
                        QUEUES, f"{queue.folder}: a file is missing or too short; the next start makes it again"
                    )
                if queue.max_offset > queue.first_offset and sum(last_place(table, queue)) > log_end:
                    report.note(
                        QUEUES,
                        f"{queue.topic}/{queue.queue_id} names messages behind the log's end: the next start cuts them",
                    )
