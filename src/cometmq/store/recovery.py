"""Recovery: where the log ends, and queues and index that agree with it.

    after a clean stop   the queues are whole: the log is walked only from their last message on
    after a kill         the log is walked from the segment that the checkpoint vouches for

Walking ends at the first thing that is no sound record. What stands behind is a torn write: the rest of the
segment is zeroed (Java leaves it, and old messages can come back to life), queue units and index entries that
point there are cut. But if the next segment begins with a record that the checkpoint knows to be flushed, the log is
damaged in its middle: then nothing is touched and the store does not open.

Without the folder of the queues all are rebuilt from the first segment. A queue that was deleted stays deleted if the
checkpoint is newer than the deletion.

Mirrors: DefaultMessageStore.recover, CommitLog.recoverNormally, recoverAbnormally.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cometmq.errors import StoreError
from cometmq.model import properties
from cometmq.model.java_hash import tags_code
from cometmq.model.names import SCHEDULE_TOPIC, stored_topic_fault
from cometmq.store.batch_queue import BatchQueue, BatchQueues, count_of
from cometmq.store.checkpoint import Checkpoint
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.delivery_time import DeliveryTimes
from cometmq.store.dispatch import UNWRITTEN_UNITS_MAX, Dispatcher
from cometmq.store.index import IndexService, index_keys
from cometmq.store.log_walk import FoundTuple, Walk, WalkEnd
from cometmq.store.queue_recovery import cut_behind, find_end, last_place
from cometmq.store.queue_table import QueueTable

INDEX_SEGMENTS_MAX: Final = 10  # so far back a lost index is rebuilt

Progress = Callable[[int, int], None]  # bytes walked, bytes to walk

_PREPARED: Final = 0x4
_ROLLBACK: Final = 0xC


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
        index_lost: bool,
    ) -> None:
        self._log = log
        self._batches = batches
        self._tables = (table, batches.table)
        self._dispatcher = dispatcher
        self._index = index
        self._checkpoint = checkpoint
        self._config = config
        self._progress = progress or (lambda done, total: None)
        self._delivery_times = DeliveryTimes(config.message_delay_level)
        self._on_disk: set[tuple[str, int]] = set()
        self._queue_by_topic: dict[tuple[bytes, int], ConsumeQueue] = {}
        self._last_store_time_ms = 0
        # With its folder there, an absent queue was deleted; without, all are to be rebuilt.
        self._vouched = 0 if queues_lost else checkpoint.logics_physical_offset
        self._index_lost = index_lost and index is not None
        self._indexed_before = index.last_update[1] if index is not None else 1 << 63

    def run(self, *, clean: bool) -> None:
        log = self._log
        for table, queue in self._queues():
            find_end(table, queue, clean=clean)
            if not clean and queue.max_physical > self._checkpoint.logics_physical_offset:
                table.doubt_from(queue, self._checkpoint.logics_physical_offset)
            if queue.max_offset > queue.first_offset:
                self._on_disk.add((queue.topic, queue.queue_id))
        self._batches.count_messages()
        if not log.segments:
            for table, queue in self._queues():
                table.cut(queue, 0)
            self._batches.count_messages()
            self._batches.start_at_end()
            log.set_end(0, 0)
            return
        start = self._start_clean() if clean else self._start_after_kill()
        if self._index_lost:
            start = min(start, sorted(log.segments)[-INDEX_SEGMENTS_MAX:][0])
        end = self._walk(start)
        for table, queue in self._queues():
            if queue.max_physical > end:
                cut_behind(table, queue, end)
            table.correct_min_offset(queue, log.min_offset)
            queue.next_offset = queue.max_offset
        self._batches.count_messages()
        self._batches.start_at_end()
        if self._index is not None and self._index.last_update[1] >= end:
            self._index.truncate(end)
        if self._checkpoint.logics_physical_offset >= end:
            self._checkpoint.logics_physical_offset = 0  # it speaks of a log that is gone
        log.set_end(end, self._last_store_time_ms)
        if not clean:
            log.doubt_from(start)
        self._dispatcher.dispatched = end

    def _queues(self) -> list[tuple[QueueTable, ConsumeQueue]]:
        return [(table, queue) for table in self._tables for queue in table.queues.values()]

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
        self._last_store_time_ms = found[5]
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

    def _first_record(self, offset: int) -> FoundTuple | None:
        segment = self._log.segment_of(offset) if offset >= 0 else None
        if segment is None:
            return None
        walk = Walk(self._log.view_of(segment.start), segment.start, offset - segment.start, check_crc=True)
        return next(iter(walk), None)

    # The walk

    def _walk(self, at: int) -> int:
        """Replay the log from `at`; returns where it ends."""
        log = self._log
        total = max(log.segments) + log.segment_size - at
        begin = at
        while (segment := log.segment_of(at)) is not None:
            view = log.view_of(segment.start)
            walk = Walk(view, segment.start, at - segment.start, check_crc=self._config.check_crc_on_recover)
            for found in walk:
                self._replay(view, segment.start, found)
            if walk.end is WalkEnd.NO_RECORD:
                self._refuse_damage(segment.start, segment.start + walk.at)
                return segment.start + walk.at
            if segment.end not in log.segments:
                return segment.start + walk.at  # the blank is written anew when the next message does not fit
            at = segment.end
            self._progress(at - begin, total)
        return at

    def _refuse_damage(self, start: int, end: int) -> None:
        """Tell damage from a write torn at a segment's end, of which the next segment got its part already."""
        following = self._first_record(start + self._log.segment_size)
        if following is not None and self._checkpoint.physic_ms > following[5]:
            path = self._log.segments[start].path
            raise StoreError(
                f"{path} is damaged at byte {end - start}: no sound message stands there, but the next file goes on. "
                "Nothing was changed. Restore the file from a backup or a replica"
            )

    def _replay(self, view: memoryview, start: int, found: FoundTuple) -> None:
        at, size, queue_id, queue_offset, sys_flag, store_time_ms, topic_at, topic_size, properties_at = found
        if store_time_ms > self._last_store_time_ms:
            self._last_store_time_ms = store_time_ms
        topic_data = bytes(view[topic_at : topic_at + topic_size])
        physical_offset = start + at
        queue = self._queue_by_topic.get((topic_data, queue_id))
        if queue is None:
            queue = self._queue_of(topic_data, queue_id, physical_offset)
            if queue is None:
                return
        end = physical_offset + size
        if end < queue.max_physical and physical_offset < self._indexed_before:
            return  # in queue and index already
        text = str(view[properties_at : at + size], "utf-8", "replace")
        found_properties = properties.parse(text)
        tags = found_properties.get(properties.TAGS)
        code = tags_code(tags)
        if queue.topic == SCHEDULE_TOPIC and properties.DELAY in found_properties:
            code = self._delivery_times.tags_code(found_properties[properties.DELAY], store_time_ms, code)
        words: list[str] = []
        if sys_flag & _ROLLBACK != _ROLLBACK:
            words = index_keys(found_properties.get(properties.UNIQ_KEY), found_properties.get(properties.KEYS), tags)
        unit_offset = -1 if sys_flag & _PREPARED else queue_offset
        if isinstance(queue, BatchQueue):
            if unit_offset >= 0:
                queue.counts[physical_offset] = count_of(found_properties)
        elif end == queue.max_physical:
            self._mend_last_unit(queue, physical_offset, code)
        self._dispatcher.replay(queue, physical_offset, size, code, unit_offset, words, store_time_ms)
        if self._dispatcher.unwritten_units >= UNWRITTEN_UNITS_MAX:
            self.write_queues()

    def _mend_last_unit(self, queue: ConsumeQueue, physical_offset: int, code: int) -> None:
        """A power cut may have kept the beginning of the last unit and not its tags code: then it is put again."""
        table = self._tables[0]
        unit = table.unit(queue, queue.max_offset - 1)
        if unit is not None and unit[2] != code:
            table.cut(queue, queue.max_offset - 1)
            queue.max_physical = physical_offset

    def _queue_of(self, topic_data: bytes, queue_id: int, physical_offset: int) -> ConsumeQueue | None:
        """The queue of a record; None if it was deleted since, or its name is damaged."""
        topic = topic_data.decode(errors="replace")
        key = (topic, queue_id)
        if 0 < self._vouched >= physical_offset and key not in self._on_disk:
            return None
        if queue_id < 0 or stored_topic_fault(topic) is not None:
            return None  # a name that could leave the store's folder is never opened
        queue = self._queue_by_topic[topic_data, queue_id] = self._batches.open(topic, queue_id)
        return queue

    def write_queues(self) -> None:
        """Write the tails: a long replay must not gather in memory."""
        for table in self._tables:
            job = table.prepare(sync=False)
            try:
                job.run()
            finally:
                table.finish(job)
        self._dispatcher.unwritten_units = 0
