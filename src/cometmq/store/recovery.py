"""Recovery: where the log ends, and queues and index that agree with it.

    after a clean stop   the queues are whole: the log is walked only from their last message on
    after a kill         the log is walked from the segment that the checkpoint vouches for

Walking ends at the first thing that is no sound record. What stands behind is a torn write: the rest of the
segment is zeroed (Java leaves it, and old messages can come back to life), queue units and index entries that
point there are cut, and a line says so. But if more is known to have been synced (`damage.py`), the log is damaged:
then nothing of it is touched, the walk goes on behind the damage, and the store opens for reading only. Of a log that
is gone altogether the queues are not cut either: the start is refused.

Without the folder of the queues all are rebuilt from the first segment. A queue whose last unit does not fit the
record it names, or whose last file holds none, is replayed from the last unit that does fit; one whose files hold none
at all, from the first segment, unless it was made just before a kill. One of whose files one is missing or too short is
cut there, and replayed from there on.

Mirrors: DefaultMessageStore.recover, CommitLog.recoverNormally, recoverAbnormally.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from cometmq.errors import StoreError
from cometmq.model.sysflag import TRANSACTION_UNSEEN
from cometmq.store.batch_queue import BatchQueues
from cometmq.store.checkpoint import Checkpoint
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.damage import Damage, Evidence
from cometmq.store.dispatch import Dispatcher
from cometmq.store.index import IndexService
from cometmq.store.index_holes import indexed_from, lacks_some
from cometmq.store.log_walk import FoundTuple, Walk, WalkEnd
from cometmq.store.queue_recovery import Files, cut_behind, doubt_end, find_end, last_place, named_behind
from cometmq.store.queue_table import QueueTable
from cometmq.store.replay import Replay

logger = logging.getLogger("cometmq.store")

Progress = Callable[[int, int], None]  # bytes walked, bytes to walk


class Recovery:
    """One recovery; `run` leaves log, queues and index ready."""

    def __init__(
        self,
        log: CommitLog,
        table: QueueTable,
        batches: BatchQueues,
        dispatcher: Dispatcher,
        index: IndexService | None,
        checkpoint: Checkpoint,
        config: StoreConfig,
        progress: Progress | None,
        *,
        queues_lost: bool,
    ) -> None:
        self._log = log
        self._batches = batches
        self._tables = (table, batches.table)
        self._dispatcher = dispatcher
        self._index = index
        self._checkpoint = checkpoint
        self._config = config
        self._progress = progress or (lambda done, total: None)
        self._on_disk: set[tuple[str, int]] = set()
        # With its folder there, an absent queue was deleted; without, all are to be rebuilt.
        self._vouched = 0 if queues_lost else checkpoint.logics_physical_offset
        self._index_from: int | None = None  # what stands behind is to be indexed again
        if index is not None:
            self._index_from = 0 if index.lost else index.cut_at_hole(partial(lacks_some, log, self._tables))
        self._replay = Replay(
            table,
            batches,
            dispatcher,
            config.message_delay_level,
            self._on_disk,
            vouched=self._vouched,
            indexed_before=index.last_update[1] if index is not None else 1 << 63,
            synced_ms=checkpoint.physic_ms,
        )
        self.damages: list[Damage] = []

    def run(self, *, clean: bool) -> None:
        log = self._log
        if not clean:
            logger.warning("%s: the last broker did not stop cleanly", self._config.store_path_root_dir)
        self._evidence = Evidence(
            log,
            self._checkpoint,
            clean=clean,
            named_behind=lambda end: named_behind(self._queues(), end, log.segment_size),
        )
        doubted: set[ConsumeQueue] = set()
        empty: set[ConsumeQueue] = set()
        holed: list[tuple[QueueTable, ConsumeQueue]] = []
        for table, queue in self._queues():
            files = find_end(table, queue, clean=clean, log_begin=log.min_offset)
            if files is Files.SPOILT:
                doubted.add(queue)
            elif files is Files.HOLED:
                holed.append((table, queue))
            elif files is Files.EMPTY:
                empty.add(queue)
            # The file of an empty one was made by who died before writing to it: its name may not be on the disk.
            unsure = files is Files.EMPTY or queue.max_physical > self._checkpoint.logics_physical_offset
            if not clean and unsure:
                table.doubt_from(queue, self._checkpoint.logics_physical_offset)
            if files is not Files.NONE:
                self._on_disk.add((queue.topic, queue.queue_id))
        if not log.segments:
            lost = self._evidence.lost_log()
            if lost is not None:
                raise StoreError(
                    f"{lost}: is its disk mounted, and storePathCommitLog right? If the log is lost, "
                    f"`cometmq store repair {self._config.store_path_root_dir}` shows what can be done"
                )
            for table, queue in self._queues():
                table.cut(queue, 0)
            self._batches.count_messages()
            self._batches.start_at_end()
            log.set_end(0, 0)
            return
        if holed:
            self._cut_at_holes(holed)
            doubted |= {queue for _, queue in holed}
        doubted |= {queue for table, queue in self._queues() if doubt_end(table, queue, log.record_head)}
        self._batches.count_messages()
        if empty and (clean or not self._begin_behind(self._start_after_kill(), empty)):
            doubted |= empty
        start = self._start_clean() if clean and not doubted else self._start_after_kill()
        for queue in doubted:
            start = min(start, log.segment_start(max(queue.max_physical, log.min_offset)))
        if self._index_from is not None:
            start = min(start, max(log.segment_start(self._index_from), indexed_from(log)))
        end = self._walk(start)
        dropped = 0
        for table, queue in self._queues():
            if queue.max_physical > end or queue in doubted or queue in empty:
                max_offset = queue.max_offset
                cut_behind(table, queue, end, log.record_head, 1 << 62 if self.damages else start)
                dropped += max_offset - queue.max_offset
            table.correct_min_offset(queue, log.min_offset)
            queue.next_offset = queue.max_offset
        self._batches.count_messages()
        self._batches.start_at_end()
        if self._index is not None and self._index.last_update[1] >= end:
            self._index.truncate(end)
        if self._checkpoint.logics_physical_offset >= end:
            self._checkpoint.logics_physical_offset = 0  # it speaks of a log that is gone
        if self.damages:
            # A later start must find the same, also where it was the stop before this start that told it.
            self._checkpoint.flushed = max(self._checkpoint.flushed, self.damages[-1].end)
            self._checkpoint.physic_ms = max(self._checkpoint.physic_ms, self._checkpoint.proven_ms)
            self._checkpoint.flush()
            end = min(end, max(log.segments) + log.segment_size)  # the last files may be missing
        elif self._checkpoint.flushed > end:  # a blank before a file that is not there yet goes
            self._checkpoint.flushed = end
            self._checkpoint.flush()
        torn = log.set_end(end, self._replay.last_store_time_ms, cut=not self.damages)
        for path, at, size in torn:
            logger.warning(
                "%s: %s bytes from byte %d on were cut: nothing that was known to be synced", path, f"{size:,}", at
            )
        if dropped:
            logger.warning("%s units of queues that named nothing in the log were cut", f"{dropped:,}")
        if not clean and not self.damages:
            log.doubt_from(start)
        self._dispatcher.dispatched = end

    def _queues(self) -> list[tuple[QueueTable, ConsumeQueue]]:
        return [(table, queue) for table in self._tables for queue in table.queues.values()]

    def _cut_at_holes(self, holed: list[tuple[QueueTable, ConsumeQueue]]) -> None:
        """Drop the files behind the holes; replay makes them again. If a kill comes between, the next start must not
        believe that the queues are complete."""
        self._checkpoint.logics_ms = self._checkpoint.logics_physical_offset = 0
        self._checkpoint.flush()
        for table, queue in holed:
            logger.warning(
                "%s: a file is missing or too short; units from number %s on are made again from the log",
                queue.folder,
                f"{queue.max_offset:,}",
            )
            table.cut(queue, queue.max_offset)

    # Where to start

    def _start_clean(self) -> int:
        """The end of the last dispatched message, if the log agrees."""
        last = max(self._queues(), key=lambda found: found[1].max_physical, default=None)
        if last is None or last[1].max_physical < 0:
            return self._start_after_kill()
        physical_offset, size = last_place(*last)
        found = self._first_record(physical_offset)
        if found is None or found[1] != size:
            return self._start_after_kill()
        self._replay.last_store_time_ms = found[5]
        return physical_offset + size

    def _start_after_kill(self) -> int:
        """The last segment all before which is surely in queues and index."""
        log, checkpoint = self._log, self._checkpoint
        for start in sorted(log.segments, reverse=True):
            found = self._first_record(start)
            if found is None:
                continue
            store_time_ms = found[5]
            if self._vouched > 0:
                whole = start <= self._vouched
            else:
                whole = bool(self._on_disk) and store_time_ms <= checkpoint.min_ms
            if whole and (self._index is None or store_time_ms <= checkpoint.index_ms):
                return start
        return log.min_offset

    def _begin_behind(self, at: int, queues: set[ConsumeQueue]) -> bool:
        """Whether the first message of each of these queues stands behind `at`: they were made just before a kill."""
        wanted = {(queue.topic.encode(), queue.queue_id) for queue in queues}
        while wanted and (segment := self._log.segment_of(at)) is not None:
            walk = Walk(self._log.view_of(segment.start), segment.start, at - segment.start, check_crc=False)
            for _, _, queue_id, queue_offset, sys_flag, _, topic, _ in walk:
                if (topic, queue_id) in wanted and not sys_flag & TRANSACTION_UNSEEN:
                    if queue_offset:
                        return False
                    wanted.discard((topic, queue_id))
            if walk.end is WalkEnd.NO_RECORD:
                break
            at = segment.end
        return not wanted

    def _first_record(self, offset: int) -> FoundTuple | None:
        segment = self._log.segment_of(offset) if offset >= 0 else None
        if segment is None:
            return None
        walk = Walk(self._log.view_of(segment.start), segment.start, offset - segment.start, check_crc=True)
        return next(iter(walk.batch(1)), None)

    # The walk

    def _walk(self, at: int) -> int:
        """Replay the log from `at`; returns where it ends."""
        log = self._log
        begin, total = at, log.bytes_from(at)
        while (segment := log.segment_of(at)) is not None:
            view = log.view_of(segment.start)
            walk = Walk(view, segment.start, at - segment.start, check_crc=self._config.check_crc_on_recover)
            while found := walk.batch():
                self._replay.take(segment.start, found)
                done = segment.start + walk.at - begin
                self._progress(done, max(done, total))
            end = segment.start + walk.at
            if walk.end is WalkEnd.NO_RECORD:
                damage = self._evidence.damage_at(end, self._replay.last_store_time_ms)
                if damage is None:
                    return end
            elif segment.end not in log.segments:
                damage = self._evidence.damage_at(segment.end, self._replay.last_store_time_ms)
                if damage is None:
                    return end  # the blank is written anew when the next message does not fit
            else:
                at = segment.end
                continue
            self.damages.append(damage)
            at = damage.end
        return at
