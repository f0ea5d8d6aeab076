"""Is a store sound? Every record of the log, every unit of the queues, the index, the checkpoint and the tables.

The log is walked once from its first byte. What the next start does by itself (cut a torn tail, add what a kill kept
from the queues) is only noted; what it cannot or may not do is a fault. What is torn and what is damaged both ask
`damage.py`.

Mirrors: nothing in Java.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Final

from cometmq.errors import StoreError
from cometmq.store.damage import Damage, Evidence, sound_behind
from cometmq.store.inspection.findings import Report
from cometmq.store.inspection.folder import Folder
from cometmq.store.inspection.index_check import check_index
from cometmq.store.inspection.table_check import check_tables
from cometmq.store.inspection.units_check import QUEUES, UnitsCheck
from cometmq.store.log_walk import Walk, WalkEnd
from cometmq.store.queue_recovery import find_end, named_behind
from cometmq.store.recovery import Progress
from cometmq.store.replay import Replay
from cometmq.store.segment import segment_path

LOG: Final = "commitlog"
CHECKPOINT: Final = "checkpoint"
SOUND_BEHIND_MAX: Final = 1000


class Check:
    """One look at a folder: `run`, then `report`; `damages` and `end` tell more about the log."""

    def __init__(self, folder: Folder, progress: Progress | None = None, *, for_repair: bool = False) -> None:
        self._folder = folder
        self._progress = progress or (lambda done, total: None)
        self.units = UnitsCheck(folder, keep_wanted=for_repair)
        self._messages = 0
        self._evidence = Evidence(
            folder.log, folder.checkpoint, clean=folder.stopped_cleanly, named_behind=self.named_behind
        )
        self.report = Report()
        self.damages: list[Damage] = []
        self.lost_log = self._evidence.lost_log()
        self.end = 0

    def run(self) -> Report:
        """Look at everything."""
        self.look_at_log()
        self.look_at_checkpoint()
        check_index(self._folder, self.report, self.end)
        check_tables(self._folder, self.report)
        return self.report

    def look_at_log(self) -> None:
        """The log and the queues, in one walk."""
        folder, report = self._folder, self.report
        for fault in folder.faults:
            report.fault(LOG, fault)
        for text in folder.notes:
            report.note(QUEUES, text)
        if not folder.stopped_cleanly:
            report.note(LOG, "the last broker did not stop cleanly: the next start replays the end of the log")
        self.end = self._walk()
        for damage in self.damages:
            report.fault(LOG, str(damage))
        if self.lost_log is not None:
            report.fault(LOG, f"{self.lost_log}: is its disk mounted? (storePathCommitLog may name another folder)")
        files = len(folder.log.segments)
        size = self.end - folder.log.min_offset if files else 0
        report.summary[LOG] = f"{files} files, {self._messages:,} messages, {size:,} bytes"
        if not files and self.lost_log is None:
            report.note(LOG, f"nothing is there: {folder.log.folder} has no file, and nothing speaks of messages")
        self.units.finish(report, self.end)

    def _walk(self) -> int:
        log = self._folder.log
        if not log.segments:
            return self.named_behind(0) if self.lost_log is not None else 0
        replay = Replay(
            self._folder.queues,
            self._folder.batches,
            self.units,
            self._folder.config.message_delay_level,
            set(),
            vouched=0,
            indexed_before=-1,
        )
        at = begin = log.min_offset
        files_end, total = max(log.segments) + log.segment_size, log.bytes_from(begin)
        while at < files_end:
            segment = log.segment_of(at)
            if segment is None:  # missing between others
                later = min(start for start in log.segments if start > at)
                path = segment_path(log.folder, log.segment_start(at))
                self._damaged(Damage(path, at % log.segment_size, at, later, missing=True))
                at = later
                continue
            view = log.view_of(segment.start)
            walk = Walk(view, segment.start, at - segment.start, check_crc=True)
            while found := walk.batch():
                self._messages += len(found)
                replay.take(segment.start, found)
                done = segment.start + walk.at - begin
                self._progress(done, max(done, total))
            end = segment.start + walk.at
            at = segment.end if walk.end is WalkEnd.NEXT_SEGMENT else end
            if at == segment.end and at < files_end:
                continue
            damage = self._evidence.damage_at(at, replay.last_store_time_ms)
            if damage is None:
                if at == end:
                    self._note_tail(segment.start, end)
                return end
            self._damaged(damage)
            at = damage.end
        return at

    def named_behind(self, end: int) -> int:
        """How far the messages reach that queues name at or behind `end`."""
        folder = self._folder
        queues = [(table, queue) for table in (folder.queues, folder.batches.table) for queue in table.queues.values()]
        for table, queue in queues:
            with suppress(StoreError):  # the units' check says what is wrong
                find_end(table, queue, clean=True, log_begin=folder.log.min_offset)
        return named_behind(queues, end, folder.log.segment_size)

    def _damaged(self, damage: Damage) -> None:
        if self.damages and self.damages[-1].end == damage.start:
            damage = self.damages.pop()._replace(end=damage.end)
        self.damages.append(damage)

    def _note_tail(self, start: int, end: int) -> None:
        """What stands behind the log's end: nothing, a write that was torn, or messages that nobody vouches for."""
        log = self._folder.log
        path, at = log.segments[start].path, end - start
        count = sum(1 for _ in islice(sound_behind(log, end), SOUND_BEHIND_MAX))
        if count:
            more = " or more" if count == SOUND_BEHIND_MAX else ""
            self.report.note(
                LOG,
                f"{path} is torn at byte {at}, and {count}{more} messages stand behind that the checkpoint does not "
                "know to be synced: the next start cuts them off, as it must after a power cut",
            )
        elif any(piece.strip(b"\0") for _, piece in log.data_pieces(start, at, 1 << 20, 0)):
            self.report.note(LOG, f"{path} ends with a torn write at byte {at}: the next start cuts it")

    def look_at_checkpoint(self) -> None:
        folder, report = self._folder, self.report
        checkpoint = folder.checkpoint
        if not folder.has_checkpoint:
            report.summary[CHECKPOINT] = "none: the next start replays the whole log"
            report.note(CHECKPOINT, f"{folder.config.checkpoint_path} is missing")
            return
        report.summary[CHECKPOINT] = (
            f"log synced up to {checkpoint.physic_ms}, queues to {checkpoint.logics_ms}, index to {checkpoint.index_ms}"
        )
        if checkpoint.logics_physical_offset > self.end:
            report.note(CHECKPOINT, "it speaks of a log that was longer; the next start does not rely on it")
