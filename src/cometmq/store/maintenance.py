"""One round of periodic work: queue tails and index entries go to their files, and the checkpoint follows.

A plain round only writes; a thorough one also syncs, the log first, and then moves the checkpoint: it may only say
what is on the disk. Last come searches for messages whose units are damaged. `Maintenance(…)` and `finish` run on the
owner's thread, `run` on any.

A full disk is survived: the tails stay in memory and go with a later round. Any other error fences the store, and so
does a sync that fails for whatever reason.

Mirrors: ConsumeQueueStore.FlushConsumeQueueService, StoreCheckpoint.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from threading import Lock

from cometmq.store.checkpoint import Checkpoint
from cometmq.store.commit_log import CommitLog
from cometmq.store.dispatch import Dispatcher
from cometmq.store.index import IndexService
from cometmq.store.queue_table import QueueTable
from cometmq.store.syncing import SyncFailed
from cometmq.store.unit_healing import UnitHealer

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Maintenance:
    """Copies made when created, written by `run`, taken over by `finish`."""

    def __init__(
        self,
        log: CommitLog,
        tables: Sequence[QueueTable],
        index: IndexService | None,
        checkpoint: Checkpoint,
        dispatcher: Dispatcher,
        healer: UnitHealer,
        *,
        thorough: bool,
    ) -> None:
        self._log = log
        self._index = index
        self._checkpoint = checkpoint
        self._thorough = thorough
        self._queues = [(table, table.prepare(sync=thorough)) for table in tables]
        self._index_flush = index.prepare() if index is not None and thorough else None
        self._index_ms = index.flushed_store_time_ms if index is not None else 0
        self._logics_ms = dispatcher.last_store_time_ms
        self._logics_physical_offset = dispatcher.last_physical_offset
        self._indexed = False
        self._healer = healer
        self._search = healer.prepare()
        self._running = Lock()
        self._finished = False
        dispatcher.unwritten_units = 0
        self.disk_full = False
        self.complete = False  # everything copied is in the files

    def run(self) -> None:
        """Write, and sync if this round is thorough; nothing, if it was finished before it began."""
        with self._running:
            if not self._finished:
                self._run()
                if self._search is not None:
                    self._search.run()

    def _run(self) -> None:
        try:
            fenced = self._log.fault is not None
            self._log.prepare_spare()
            if self._thorough and not fenced:
                self._log.flush()
            for _table, write in self._queues:
                write.run()
            if self._index_flush is not None:
                self._index_flush.run()
                self._indexed = True
                self._index_ms = self._index_flush.store_time_ms
            if fenced:
                return  # what is in the log nobody can say, so nothing is said about it
            if self._thorough:
                self._move_checkpoint()
            else:
                self._vouch_for_log()
            self.complete = True
        except OSError as error:
            self.disk_full = error.errno in _FULL and not isinstance(error, SyncFailed)
            if not self.disk_full:
                self._log.fence(f"{self._queues[0][0].folder}: queues or index cannot be written: {error.strerror}")

    def _move_checkpoint(self) -> None:
        checkpoint = self._checkpoint
        self._take_flushed()
        checkpoint.logics_ms = max(checkpoint.logics_ms, self._logics_ms)
        checkpoint.logics_physical_offset = max(checkpoint.logics_physical_offset, self._logics_physical_offset)
        checkpoint.index_ms = max(checkpoint.index_ms, self._index_ms)
        checkpoint.flush()

    def _vouch_for_log(self) -> None:
        """Say soon how far the log is flushed, so that recovery can tell damage from a tear.

        It is true whether or not it gets to the disk, so only the end of a segment is worth a sync.
        """
        log, checkpoint = self._log, self._checkpoint
        self._take_flushed()
        if log.vouched_segment != log.flushed // log.segment_size:
            log.vouched_segment = log.flushed // log.segment_size
            checkpoint.flush()
        else:
            checkpoint.write()

    def _take_flushed(self) -> None:
        log, checkpoint = self._log, self._checkpoint
        checkpoint.physic_ms = max(checkpoint.physic_ms, log.flushed_store_time_ms)
        checkpoint.flushed = max(checkpoint.flushed, log.flushed_whole)

    def finish(self) -> None:
        """Let go of what is in the files now. Waits for a `run` whose caller was cancelled."""
        with self._running:
            self._finished = True
            for table, write in self._queues:
                table.finish(write)
            if self._search is not None:
                self._healer.finish(self._search)
            if self._index is not None and self._index_flush is not None:
                self._index.finish(self._index_flush, failed=not self._indexed)
