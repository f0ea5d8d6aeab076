"""Records found in the log, brought to the queues and the index that lack them: many at a time.

A queue or index that has a record already is left as it is. Properties that differ from others in the unique key alone
are not parsed again; topics whose units hold more than the hash of a tag (delays, batches), and the first record of any
queue, take the patient way.

A queue that was deleted stays deleted if the checkpoint is newer than the deletion: `vouched` is the place in the
log up to which the queues on disk are all there are.

Mirrors: DefaultMessageStore.doDispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from cometmq import compiled
from cometmq.clock import SystemClock
from cometmq.model import properties
from cometmq.model.java_hash import tags_code
from cometmq.model.names import SCHEDULE_TOPIC, stored_topic_fault
from cometmq.model.sysflag import TRANSACTION_UNSEEN, MessageFlag
from cometmq.store.append import Entry
from cometmq.store.batch_queue import BatchQueue, BatchQueues, count_of
from cometmq.store.checkpoint import AHEAD_MS_MAX
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.delivery_time import DeliveryTimes
from cometmq.store.dispatch import UNWRITTEN_UNITS_MAX
from cometmq.store.log_walk import FoundTuple
from cometmq.store.queue_table import QueueTable

_ROLLBACK: Final = int(MessageFlag.TRANSACTION_ROLLBACK)
_INNER_BATCH: Final = int(MessageFlag.INNER_BATCH)
_SEPARATOR: Final = properties.PROPERTY_SEPARATOR.encode()
_BORDERS: Final = (b"", _SEPARATOR)  # where a property begins
_UNIQ_KEY: Final = f"{properties.UNIQ_KEY}{properties.NAME_SEPARATOR}".encode()


class Takes(Protocol):
    """Who is given what was found: the store's dispatcher."""

    unwritten_units: int

    def replay(self, entries: list[Entry]) -> None: ...


Patient = Callable[[int, FoundTuple], "Entry | None"]
Mend = Callable[[ConsumeQueue, int, int], None]


def entries_in_python(
    found: list[FoundTuple],
    start: int,
    queues: dict[tuple[bytes, int], ConsumeQueue],
    indexed_before: int,
    last_ms: int,
    newest_ms: int,
    patient: Patient,
    mend: Mend,
) -> tuple[list[Entry], int]:
    """What dispatch lacks of these records, and the last store time that can be right.

    `patient` is asked about records of other queues than `queues`, `mend` looks at the last unit that a queue has.
    """
    entries: list[Entry] = []
    add = entries.append
    # Tags, keys and tags code by what stands before and behind the unique key, in which most messages differ.
    known: dict[tuple[bytes, bytes], tuple[str | None, str | None, int]] = {}
    for record in found:
        at, size, queue_id, queue_offset, sys_flag, store_time_ms, topic, data = record
        if last_ms < store_time_ms < newest_ms:
            last_ms = store_time_ms
        queue = queues.get((topic, queue_id))
        if queue is None:
            entry = patient(start, record)
            if entry is not None:
                add(entry)
            continue
        physical_offset = start + at
        end = physical_offset + size
        if end < queue.max_physical and physical_offset < indexed_before:
            continue  # in queue and index already
        before, _, behind = data.partition(_UNIQ_KEY)
        key_data, _, after = behind.partition(_SEPARATOR)
        words = known.get((before, after))
        if words is not None:
            uniq_key = str(key_data, "utf-8", "replace") if key_data else None
        else:
            parsed = properties.parse(str(data, "utf-8", "replace"))
            uniq_key, tags = parsed.get(properties.UNIQ_KEY), parsed.get(properties.TAGS)
            words = tags, parsed.get(properties.KEYS), tags_code(tags)
            if before[-1:] in _BORDERS and _UNIQ_KEY not in after:
                known[before, after] = words
        tags, keys, code = words
        if sys_flag & TRANSACTION_UNSEEN:
            queue_offset = -1
        if end == queue.max_physical:
            mend(queue, physical_offset, code)
        add((end, queue, physical_offset, size, code, queue_offset, keys, uniq_key, store_time_ms, sys_flag, tags))
    return entries, last_ms


_entries: Final = compiled.twin("replayed_entries", entries_in_python)


class Replay:
    """Takes records in the order of the log; `indexed_before` and what lies before it is in the index.

    At `synced_ms` something was stored for certain: the clock may have been set back since.
    """

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
        synced_ms: int = 0,
    ) -> None:
        self._table = table
        self._batches = batches
        self._tables = (table, batches.table)
        self._dispatcher = dispatcher
        self._delivery_times = DeliveryTimes(delay_levels)
        self._on_disk = on_disk
        self._vouched = vouched
        self._indexed_before = indexed_before
        self._queues: dict[tuple[bytes, int], ConsumeQueue] = {}
        self._plain_queues: dict[tuple[bytes, int], ConsumeQueue] = {}  # those whose units hold the hash of a tag
        self.last_store_time_ms = 0
        self._newest_ms = max(SystemClock().now_ms(), synced_ms) + AHEAD_MS_MAX  # no CRC covers store times

    def take(self, start: int, found: list[FoundTuple]) -> None:
        """Replay records of the segment at `start`."""
        entries, self.last_store_time_ms = _entries(
            found, start, self._plain_queues, self._indexed_before, self.last_store_time_ms, self._newest_ms,
            self._patient_entry, self._mend_last_unit,
        )  # fmt: skip
        if entries:
            self._dispatcher.replay(entries)
            if self._dispatcher.unwritten_units >= UNWRITTEN_UNITS_MAX:
                self._write_queues()

    def _patient_entry(self, start: int, record: FoundTuple) -> Entry | None:
        """What dispatch lacks of a record whatever its queue is; None if that is nothing."""
        at, size, queue_id, queue_offset, sys_flag, store_time_ms, topic, data = record
        physical_offset = start + at
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            if sys_flag & _ROLLBACK == _ROLLBACK:
                return None  # no queue and no index has those
            queue = self._queue_of(topic, queue_id, physical_offset, sys_flag)
            if queue is None:
                return None
        end = physical_offset + size
        if end < queue.max_physical and physical_offset < self._indexed_before:
            return None
        found = properties.parse(str(data, "utf-8", "replace"))
        tags, keys, uniq_key = (found.get(name) for name in (properties.TAGS, properties.KEYS, properties.UNIQ_KEY))
        code = tags_code(tags)
        if sys_flag & TRANSACTION_UNSEEN:
            queue_offset = -1
        if isinstance(queue, BatchQueue):
            if queue_offset >= 0:
                queue.counts[physical_offset] = count_of(found)
        else:
            if queue.topic == SCHEDULE_TOPIC and properties.DELAY in found:
                code = self._delivery_times.tags_code(found[properties.DELAY], store_time_ms, code)
            if end == queue.max_physical:
                self._mend_last_unit(queue, physical_offset, code)
        return end, queue, physical_offset, size, code, queue_offset, keys, uniq_key, store_time_ms, sys_flag, tags

    def _mend_last_unit(self, queue: ConsumeQueue, physical_offset: int, code: int) -> None:
        """A power cut may have kept the beginning of the last unit and not its tags code: then it is put again."""
        unit = self._table.unit(queue, queue.max_offset - 1)
        if unit is not None and unit[2] != code:
            self._table.cut(queue, queue.max_offset - 1)
            queue.max_physical = physical_offset

    def _queue_of(self, topic_data: bytes, queue_id: int, physical_offset: int, sys_flag: int) -> ConsumeQueue | None:
        """The queue of a record; None if it was deleted since, or its name is damaged."""
        topic = topic_data.decode(errors="replace")
        key = (topic, queue_id)
        if 0 < self._vouched >= physical_offset and key not in self._on_disk:
            return None
        if queue_id < 0 or stored_topic_fault(topic) is not None:
            return None  # a name that could leave the store's folder is never opened
        queue = self._queues[topic_data, queue_id] = self._batches.open(
            topic, queue_id, for_batch=bool(sys_flag & _INNER_BATCH)
        )
        if topic != SCHEDULE_TOPIC and not isinstance(queue, BatchQueue):
            self._plain_queues[topic_data, queue_id] = queue
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
