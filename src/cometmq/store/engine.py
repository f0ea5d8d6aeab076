"""The store: one log, the queues and the index built from it, and the door to all of them.

    append … append        encode, assign offsets, no system call
    write                  one system call for all of it (end of the turn)
    flush_log              one fdatasync for all of it (worker thread)
    dispatch               what is confirmed becomes visible; tells which queues grew
    read, slices, load     and back out again

Threads: everything is called on one thread, the owner's, but `flush_log`, `load`, `search`, `remove_files` and
`Maintenance.run`, which may run in workers beside it.

Mirrors: DefaultMessageStore.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cometmq.clock import Clock, SystemClock
from cometmq.errors import StoreError
from cometmq.store.append import UNDISPATCHED_MAX, Appender
from cometmq.store.batch_append import BatchAppender
from cometmq.store.batch_queue import BatchQueue, BatchQueues
from cometmq.store.batch_reader import BatchReader
from cometmq.store.checkpoint import Checkpoint
from cometmq.store.commit_log import CommitLog, Range
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import UNIT, ConsumeQueue
from cometmq.store.damage import Damage, read_only_text
from cometmq.store.dispatch import UNWRITTEN_UNITS_MAX, Arrival, Dispatcher
from cometmq.store.following import FollowedLog
from cometmq.store.fs import FileSystem, OsFs
from cometmq.store.index import IndexService
from cometmq.store.lock import StoreLock
from cometmq.store.maintenance import Maintenance
from cometmq.store.property_scan import scan_properties
from cometmq.store.queue_extension import ADDRESS_MAX, QueueExtension
from cometmq.store.queue_table import QueueTable
from cometmq.store.quick_read import QuickReader
from cometmq.store.reader import Reader
from cometmq.store.recovery import Progress, Recovery
from cometmq.store.residency import Residency
from cometmq.store.retention import Retention
from cometmq.store.time_search import LOWER, Boundary, TimeSearch
from cometmq.store.unit_healing import UnitHealer
from cometmq.wire.record import RECORD_SIZE_MIN

LASTING: Final = ("fenced", "read-only")  # states that only end when the store is opened again
NEVER: Final = (1 << 63) - 1  # a time that will not come; who waits for it has another reason to end that


class StoreState(NamedTuple):
    """`name` is for machines, `why` a sentence where something is wrong."""

    name: str
    why: str = ""


class Store:
    """An open store."""

    def __init__(
        self,
        config: StoreConfig,
        store_host: bytes,
        fs: FileSystem,
        clock: Clock,
        is_batch_topic: Callable[[str], bool | None],
    ) -> None:
        self.config = config
        self.store_host = store_host
        self._fs = fs
        self._clock = clock
        self._lock = StoreLock(fs, config.store_path_root_dir)
        self._log = CommitLog(fs, config, clock)
        self._table = QueueTable(
            fs,
            config.consume_queue_dir,
            config.mapped_file_size_consume_queue,
            setting="mappedFileSizeConsumeQueue",
        )
        self._batches = BatchQueues(fs, config, self._table, is_batch_topic)
        self._tables = (self._table, self._batches.table)
        self._index = IndexService(fs, config.index_dir, config, clock) if config.message_index_enable else None
        self._checkpoint = Checkpoint(fs, config.checkpoint_path)
        self.appender = Appender(self._log, self._table, self._batches, config, clock, store_host)
        self._dispatcher = Dispatcher(self._log, self.appender, self._table, self._batches, self._index)
        self._residency = Residency(fs, self._log)
        self._healer = UnitHealer(self._log, self._table, config.message_delay_level)
        self._batch_reader = BatchReader(self._log, self._batches, self._residency, config, self._healer)
        self._extension = QueueExtension(fs, config)
        self._reader = Reader(
            fs, self._log, self._table, self._residency, config, self._batch_reader, self._extension, self._healer
        )
        self._times = TimeSearch(self._log, self._table, self._healer)
        self._followed: FollowedLog | None = None
        self._maintenance: Maintenance | None = None
        self._thorough_at_ms = 0
        self._retention = Retention(fs, config, clock)
        self._forgotten: deque[str] = deque()  # files of the log that retention let go of and that are there still
        self.recovered_cleanly = True
        self.damages: Sequence[Damage] = ()  # in the middle of the log; with any, the store is for reading only
        # Bound here, so that a call of the hot path is one call.
        self.append = self.appender.append
        self.append_delayed = self.appender.append_delayed
        self.append_batch = self.appender.append_batch
        self.append_inner_batch = BatchAppender(self.appender).append
        self.write = self._log.write
        self.flush_log = self._log.flush
        self.quick = QuickReader(self._log, self._table, self._residency, config)
        self.read = self._reader.read
        self.slices = self._reader.slices
        self.load, self.load_found = self._reader.load, self._reader.load_found
        self.mended = self._reader.mended
        self.is_recent = self._reader.is_recent
        self.record_at = self._reader.record_at

    def follow(self) -> FollowedLog:
        """From now on take what another log holds, and no messages of our own."""
        self._followed = FollowedLog(self._log, self.appender, self._table, self._batches, self.config)
        return self._followed

    # Opening and closing

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        *,
        store_host: bytes,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        progress: Progress | None = None,
        is_batch_topic: Callable[[str], bool | None] = lambda topic: False,
    ) -> Store:
        """Lock, load and recover; a store that cannot be opened soundly is not opened."""
        store = cls(config, store_host, fs or OsFs(), clock or SystemClock(), is_batch_topic)
        store._lock.acquire()
        try:
            store._recover(progress)
        except BaseException:
            store._let_go()
            raise
        return store

    def _recover(self, progress: Progress | None) -> None:
        clean = self.recovered_cleanly = not self._lock.abort_exists
        queues_lost = not any(self._fs.exists(table.folder) for table in self._tables)
        self._log.load()
        self._table.load()
        self._batches.load()
        self._checkpoint.load()
        self._lock.create_abort()
        try:
            if self._index is not None:
                self._index.load(clean, self._checkpoint.index_ms, self._log.time_at)
            recovery = Recovery(
                self._log,
                self._table,
                self._batches,
                self._dispatcher,
                self._index,
                self._checkpoint,
                self.config,
                progress,
                queues_lost=queues_lost,
            )
            recovery.run(clean=clean)
        except StoreError:
            if clean:
                self._lock.remove_abort()  # nothing was changed: it is as clean as it was
            raise
        self._fs.make_dirs(self.config.config_dir)
        self._residency.recent_from = self._log.end
        self._thorough_at_ms = self._clock.monotonic_ms()
        self.damages = recovery.damages
        self._batch_reader.heal_first()
        if self.damages:
            self._log.fence(read_only_text(self.damages, self.config.store_path_root_dir))
        self.maintain(thorough=not clean or (self._index is not None and self._index.ahead))

    def close(self) -> None:
        """Write, flush and dispatch everything; `abort` goes only if all of that worked."""
        clean = False
        try:
            if self._log.fault is None:
                self.write()
                self.flush_log()
                while self.dispatch_waits:
                    self.dispatch()
                clean = self.maintain(thorough=True) and self._dispatcher.dispatched >= self._log.flushed
                if self._index is not None and self._index.incomplete:
                    clean = False  # only the replay after an unclean stop brings back what the index lacks
            if clean:
                self._checkpoint.close()
                self._lock.remove_abort()
        finally:
            self._let_go()

    def abandon(self) -> None:
        """Let go as a killed process would: what is not written is lost, and `abort` stays."""
        self._let_go()

    def _let_go(self) -> None:
        self._log.close()
        for table in self._tables:
            table.close()
        if self._index is not None:
            self._index.close()
        self._checkpoint.let_go()
        self._lock.release()

    # How far things are

    @property
    def written_offset(self) -> int:
        return self._log.written

    @property
    def flushed_offset(self) -> int:
        return self._log.flushed

    @property
    def confirm_offset(self) -> int:
        return self._log.confirm_offset

    @property
    def min_physical_offset(self) -> int:
        return self._log.min_offset

    def raw(self, offset: int, size_max: int) -> memoryview:
        """Visible bytes of the log from `offset` on, up to so many, within one segment; empty where there are none."""
        size = min(self._log.confirm_offset, self._log.segment_end(offset)) - offset
        return self._log.slice(offset, min(max(size, 0), size_max)) or memoryview(b"")

    @property
    def master_flushed_offset(self) -> int:
        """How far the master had flushed, as a slave was told; 0 if it was not."""
        return self._checkpoint.master_flushed_offset

    @master_flushed_offset.setter
    def master_flushed_offset(self, offset: int) -> None:
        self._checkpoint.master_flushed_offset = offset

    @property
    def dispatch_behind_bytes(self) -> int:
        return max(self._log.confirm_offset - self._dispatcher.dispatched, 0)

    @property
    def writable(self) -> bool:
        return self.fault is None

    @property
    def fault(self) -> str | None:
        """Why the store takes no messages, as a sentence."""
        return self._log.refusal

    @property
    def state(self) -> StoreState:
        """What the store does now, and why it does less than it could."""
        log = self._log
        if log.fault is not None:
            return StoreState("read-only" if self.damages else "fenced", log.fault)
        if log.disk_full is not None:
            return StoreState("disk full", log.disk_full)
        return StoreState("writable" if self._followed is None else "following")

    @property
    def put_count(self) -> int:
        """Messages that came since the store was opened and can be seen."""
        return self._dispatcher.count

    @property
    def refused_count(self) -> int:
        """Messages that were not taken."""
        return self.appender.refused

    # Dispatching and periodic work

    @property
    def dispatch_waits(self) -> bool:
        """Whether something is confirmed and not dispatched."""
        return self._dispatcher.waiting or (self._followed is not None and self._followed.lags)

    @property
    def undispatched(self) -> tuple[int, int]:
        """Ends of the first and of the last message that are appended and not dispatched; zeros if there are none."""
        waiting = self.appender.undispatched
        return (waiting[0][0], waiting[-1][0]) if waiting else (0, 0)

    def dispatch(self, max_count: int = UNDISPATCHED_MAX) -> list[Arrival]:
        """Make visible what is confirmed, at most so many messages of it; returns the queues that grew."""
        if self._followed is not None:
            self._followed.feed(max_count)
        arrivals = self._dispatcher.dispatch(max_count)
        if self._dispatcher.unwritten_units > UNWRITTEN_UNITS_MAX:
            self.maintain()
        return arrivals

    def prepare_maintenance(self, *, thorough: bool = False) -> Maintenance | None:
        """Copy what queue and index files lack, for `Maintenance.run` in a worker; None while one is under way."""
        if self._maintenance is not None:
            return None
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._thorough_at_ms >= self.config.flush_consume_queue_thorough_interval:
            thorough = True
        if thorough:
            self._thorough_at_ms = now_ms
        self._maintenance = Maintenance(
            self._log, self._tables, self._index, self._checkpoint, self._dispatcher, self._healer, thorough=thorough
        )
        return self._maintenance

    def finish_maintenance(self, job: Maintenance) -> None:
        """Take over what `job` did, on the owner's thread, also when its `run` failed."""
        self._maintenance = None
        job.finish()

    def maintain(self, *, thorough: bool = False) -> bool:
        """One round of maintenance on this thread; False if it could not write everything."""
        job = self.prepare_maintenance(thorough=thorough)
        if job is None:
            return False
        try:
            job.run()
        finally:
            self.finish_maintenance(job)
        return job.complete

    # Queues

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._table.queues.get((topic, queue_id)) or self._batches.find(topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Offset of the first message; -1 where a topic of batches never had one."""
        queue = self._queue(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Offset behind the last visible message."""
        queue = self._queue(topic, queue_id)
        return 0 if queue is None else queue.end_offset

    def next_offset(self, topic: str, queue_id: int) -> int:
        """Offset that the next message will get."""
        queue = self._queue(topic, queue_id)
        return 0 if queue is None else queue.next_offset

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Store time of the oldest message of a queue; -1 if there is none."""
        return self.message_store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def message_store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of a message; -1 if it is not there."""
        queue = self._queue(topic, queue_id)
        if isinstance(queue, BatchQueue):
            return self._batch_reader.store_time_ms(queue, offset)
        return -1 if queue is None else self._times.store_time_ms(queue, offset)

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, boundary: Boundary = LOWER) -> int:
        queue = self._queue(topic, queue_id)
        if isinstance(queue, BatchQueue):
            return self._batch_reader.offset_by_time(queue, time_ms, boundary)
        return 0 if queue is None else self._times.offset_by_time(queue, time_ms, boundary)

    def queues(self) -> Iterator[tuple[str, int, int, int]]:
        """(topic, queue id, min offset, max offset) of every queue."""
        for (topic, queue_id), queue in [*self._table.queues.items(), *self._batches.queues.items()]:
            yield topic, queue_id, queue.min_offset, queue.end_offset

    def delete_topic(self, topic: str) -> int:
        """Drop the queues of a topic; made again, it starts at 0. Only a checkpoint keeps a kill from undoing it."""
        return self._table.delete_topic(topic) + self._batches.delete_topic(topic)

    def unit_codes(self, topic: str, queue_id: int, offset: int, count: int) -> list[int]:
        """What the queue's units from `offset` on hold beside the places: hashes of tags, or delivery times."""
        queue = self._table.queues.get((topic, queue_id))
        units = b"" if queue is None else self._table.units(queue, offset, count)
        codes = [code for _, _, code in UNIT.iter_unpack(units)]
        found = [self._extension.code_at(topic, queue_id, code) if code <= ADDRESS_MAX else code for code in codes]
        return [NEVER if code is None else code for code in found]

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether the queue ever had a message."""
        return self._queue(topic, queue_id) is not None

    def units(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        """(place, size, code) of messages from `offset` on, all of one file; a topic of batches has none."""
        queue = self._table.queues.get((topic, queue_id))
        units = b"" if queue is None else self._table.units(queue, offset, count)
        codes = self.unit_codes(topic, queue_id, offset, count)
        return [(place, size, code) for (place, size, _), code in zip(UNIT.iter_unpack(units), codes, strict=True)]

    # Retention

    def clean_expired(self) -> list[str]:
        """Delete what retention lets go of; the files that went."""
        self.expire()
        return self.remove_files()

    def expire(self) -> bool:
        """Forget the log's oldest segments if their time has come, and what queues and index keep of them.

        Whether there are files for `remove_files`, also of rounds that failed; only the owner's thread may call this.
        """
        log, retention = self._log, self._retention
        if log.fault is not None:
            return False
        starts = sorted(log.segments)
        # Only what queue files know of: else offsets would be given twice after a kill.
        done = min(self._dispatcher.dispatched, log.flushed, *(table.first_unwritten() for table in self._tables))
        gone = retention.expired([log.segments[start].path for start in starts])
        gone = [path for start, path in zip(starts, gone, strict=False) if log.segments[start].end <= done]
        for start in starts[: len(gone)]:
            self._forgotten.append(log.drop_segment(start))
        log.mark_disk(self._disk_full_text() if retention.disk_full else None)
        if not self._forgotten:
            return False
        self._table.delete_before(log.min_offset)
        self._batches.delete_before(log.min_offset)
        if self._index is not None:
            self._index.delete_before(log.min_offset)
        return True

    def remove_files(self) -> list[str]:
        """Remove the files that were forgotten, and say which went: slow for large ones, so any thread may do it.

        Oldest first: one that cannot be removed keeps those behind it, or the log would have a hole at the next start.
        """
        gone: list[str] = []
        while self._forgotten:
            with suppress(FileNotFoundError):  # somebody else was quicker
                self._fs.unlink(self._forgotten[0])
            gone.append(self._forgotten.popleft())
        return gone

    def _disk_full_text(self) -> str:
        return (
            f"the disk is full: that of {self.config.store_path_root_dir} is used beyond "
            f"{self.config.disk_space_warning_level_ratio} % (diskSpaceWarningLevelRatio); "
            "free space or lower fileReservedTime, and sending works again"
        )

    def delete_expired_by_hand(self) -> None:
        """An operator asks for expired segments to go, whatever the hour."""
        self._retention.delete_by_hand()

    def clean_expired_queues(self) -> int:
        """Drop queues of which no message is left; returns how many."""
        min_offset = self._log.min_offset
        return self._table.delete_expired(min_offset) + self._batches.delete_expired(min_offset)

    # Queries

    def scan_properties(self, start: int, key: str) -> Iterator[tuple[int, str]]:
        """Physical offset and properties of the records from `start` on whose properties contain `key`."""
        return scan_properties(self._log, start, key)

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None = None
    ) -> list[Range]:
        """Places of messages that may carry the key (hashes can meet), in the log's order."""
        self.settle_index()
        return self.places(self.search(topic, key, max_count, begin_ms, end_ms, index_type))

    def settle_index(self) -> None:
        """Let `search` see everything that was dispatched."""
        if self._index is not None:
            self._index.settle()

    def search(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None = None
    ) -> list[int]:
        """CommitLog offsets that the index names. Any thread: a key of millions of messages takes seconds."""
        return [] if self._index is None else self._index.search(topic, key, max_count, begin_ms, end_ms, index_type)

    def places(self, offsets: Iterable[int]) -> list[Range]:
        """Where the messages at these offsets stand, in the log's order; those that left the log are left out."""
        return [(offset, len(record)) for offset in sorted(offsets) if (record := self.record_at(offset)) is not None]

    @property
    def index_last_update(self) -> tuple[int, int]:
        """Store time and physical offset of the newest index entry."""
        return self._index.last_update if self._index is not None else (0, 0)

    @property
    def store_times_ms(self) -> tuple[int, int]:
        """Store times of the oldest message in the log (-1: there is none) and of the newest, which is the latest."""
        return self._log.store_time_ms(self._log.min_offset, RECORD_SIZE_MIN), self._log.last_store_time_ms

    @property
    def disk_ratios(self) -> tuple[float, float]:
        """Used share of the partitions of log and queues."""
        return self._fs.used_ratio(self.config.commit_log_dir), self._fs.used_ratio(self.config.consume_queue_dir)
