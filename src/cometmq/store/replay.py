"""Records found in the log, brought to the queues and the index that lack them: many at a time.

A queue or index that has a record already is left as it is. Properties are not parsed but looked through for the
three that matter; topics whose units hold more than the hash of a tag (delays, batches) take the patient way.

A queue that was deleted stays deleted if the checkpoint is newer than the deletion: `vouched` is the place in the
log up to which the queues on disk are all there are.

Mirrors: DefaultMessageStore.doDispatch.
"""

from __future__ import annotations

from typing import Final, Protocol

from cometmq.clock import SystemClock
from cometmq.model import properties
from cometmq.model.java_hash import tags_code
from cometmq.model.names import SCHEDULE_TOPIC, stored_topic_fault
from cometmq.store.append import Entry
from cometmq.store.batch_queue import BatchQueue, BatchQueues, count_of
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.delivery_time import DeliveryTimes
from cometmq.store.dispatch import UNWRITTEN_UNITS_MAX
from cometmq.store.log_walk import FoundTuple
from cometmq.store.queue_table import QueueTable

AHEAD_MS_MAX: Final = 30 * 24 * 3_600_000  # no CRC covers a store time: one so far in the future is damaged

_PREPARED: Final = 0x4
_ROLLBACK: Final = 0xC
_SEPARATOR: Final = properties.PROPERTY_SEPARATOR
_TAGS, _KEYS, _UNIQ_KEY = (
    f"{_SEPARATOR}{name}{properties.NAME_SEPARATOR}" for name in (properties.TAGS, properties.KEYS, properties.UNIQ_KEY)
)


class Takes(Protocol):
    """Who is given what was found: the store's dispatcher."""

    unwritten_units: int

    def replay(self, entries: list[Entry]) -> None: ...


class Replay:
    """Takes records in the order of the log; `indexed_before` and what lies before it is in the index."""

    def __init__(
        self,
        table: QueueTable,
        batches: BatchQueues,
        dispatcher: Takes,
        delay_levels: str,
        on_disk: set[tuple[str, int]],
        *,
        vouched: int,
        indexed_before: int,
    ) -> None:
        self._table = table
        self._batches = batches
        self._tables = (table, batches.table)
        self._dispatcher = dispatcher
        self._delivery_times = DeliveryTimes(delay_levels)
        self._on_disk = on_disk
        self._vouched = vouched
        self._indexed_before = indexed_before
        self._queue_by_topic: dict[tuple[bytes, int], ConsumeQueue] = {}
        self.last_store_time_ms = 0
        self._newest_ms = SystemClock().now_ms() + AHEAD_MS_MAX

    def take(self, start: int, found: list[FoundTuple]) -> None:
        """Replay records of the segment at `start`."""
        queues, indexed_before = self._queue_by_topic, self._indexed_before
        entries: list[Entry] = []
        add = entries.append
        last_ms, newest_ms = self.last_store_time_ms, self._newest_ms
        for at, size, queue_id, queue_offset, sys_flag, store_time_ms, topic, data in found:
            if last_ms < store_time_ms < newest_ms:
                last_ms = store_time_ms
            physical_offset = start + at
            queue = queues.get((topic, queue_id))
            if queue is None:
                if sys_flag & _ROLLBACK == _ROLLBACK:
                    continue  # no queue and no index has those
                queue = self._queue_of(topic, queue_id, physical_offset)
                if queue is None:
                    continue
            end = physical_offset + size
            if end < queue.max_physical and physical_offset < indexed_before:
                continue  # in queue and index already
            text = _SEPARATOR + str(data, "utf-8", "replace")
            tags = keys = uniq_key = None
            # The last of a name counts, and an empty one does not count: then `value_of` looks further.
            value_at = text.rfind(_TAGS) + 6
            if value_at > 5:
                stop = text.find("\x02", value_at)
                tags = text[value_at:stop] if stop > value_at else _value_of(text, properties.TAGS)
            value_at = text.rfind(_UNIQ_KEY) + 10
            if value_at > 9:
                stop = text.find("\x02", value_at)
                uniq_key = text[value_at:stop] if stop > value_at else _value_of(text, properties.UNIQ_KEY)
            if _KEYS in text:
                keys = _value_of(text, properties.KEYS)
            code = tags_code(tags)
            if sys_flag & _PREPARED:
                queue_offset = -1
            if queue.topic == SCHEDULE_TOPIC or isinstance(queue, BatchQueue):
                code = self._special(queue, physical_offset, text, store_time_ms, code, queue_offset)
            if end == queue.max_physical and not isinstance(queue, BatchQueue):
                self._mend_last_unit(queue, physical_offset, code)
            add((end, queue, physical_offset, size, code, queue_offset, keys, uniq_key, store_time_ms, sys_flag, tags))
        self.last_store_time_ms = last_ms
        if entries:
            self._dispatcher.replay(entries)
            if self._dispatcher.unwritten_units >= UNWRITTEN_UNITS_MAX:
                self._write_queues()

    def _special(
        self,
        queue: ConsumeQueue,
        physical_offset: int,
        text: str,
        store_time_ms: int,
        code: int,
        queue_offset: int,
    ) -> int:
        """What the unit holds in place of the tags' hash; notes how many messages a batch has."""
        found = properties.parse(text)
        if isinstance(queue, BatchQueue):
            if queue_offset >= 0:
                queue.counts[physical_offset] = count_of(found)
        elif properties.DELAY in found:
            code = self._delivery_times.tags_code(found[properties.DELAY], store_time_ms, code)
        return code

    def _mend_last_unit(self, queue: ConsumeQueue, physical_offset: int, code: int) -> None:
        """A power cut may have kept the beginning of the last unit and not its tags code: then it is put again."""
        unit = self._table.unit(queue, queue.max_offset - 1)
        if unit is not None and unit[2] != code:
            self._table.cut(queue, queue.max_offset - 1)
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

    def _write_queues(self) -> None:
        """Write the tails: a long replay must not gather in memory."""
        for table in self._tables:
            job = table.prepare(sync=False)
            try:
                job.run()
            finally:
                table.finish(job)
        self._dispatcher.unwritten_units = 0


def _value_of(text: str, name: str) -> str | None:
    return properties.parse(text).get(name)
