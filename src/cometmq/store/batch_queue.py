"""Queues of topics with `queue.type=BatchCQ`: a batch is one record of the log and one unit here.

    unit (46 bytes, big-endian):   physical offset 8 · size 4 · tags code 8 · store time 8 · base offset 8 · count 2
                                   · compacted offset 4 (-1: none) · reserved 4
    file:                          batchconsumequeue/<topic>/<queue id>/<20-digit byte offset>, 300,000 units, sparse

A unit covers the messages base offset … base offset + count - 1 of the queue; a message that came alone is a batch of
one. So units are found by search, not by number. They live in a `ConsumeQueue` of their own (`units`), which counts
units, and are written, cut and deleted with it; the batch queue itself counts messages:

    min_offset, end_offset   the first message there is (-1: there was none yet), and the offset behind the last
    next_offset              the offset that the next message will get

To the appender a batch queue is a queue like any other. Its `max_offset` is never that of a message, so dispatch does
not take its short way, which packs plain units. What stands on disk decides of which kind a queue is; for a new one,
its topic does.

Mirrors: BatchConsumeQueue, ConsumeQueueStore.createConsumeQueueByType.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final

from cometmq.model.properties import INNER_BASE, INNER_NUM
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.fs import FileSystem
from cometmq.store.queue_table import QueueTable

BATCH_UNIT: Final = Struct(">qiqqqhii")
BATCH_UNIT_SIZE: Final = BATCH_UNIT.size
COUNT_MAX: Final = 0x7FFF

_NOT_COMPACTED: Final = -1
_NO_OFFSET: Final = -2  # -1 is that of a message without a place in the queue


class BatchQueue(ConsumeQueue):
    """One queue of batches. `counts` has the sizes of batches that are not dispatched yet, by physical offset."""

    __slots__ = ("counts", "end_offset", "units")

    end_offset: int

    def __init__(self, units: ConsumeQueue) -> None:
        super().__init__(units.topic, units.queue_id, units.folder, units.file_units * units.unit_size, units.unit_size)
        self.units = units
        self.counts: dict[int, int] = {}
        self.max_offset = _NO_OFFSET
        self.min_offset = -1
        self.end_offset = 0


def count_of(found: Mapping[str, str]) -> int:
    """How many messages a record says that it holds; 1 where it says nothing."""
    text = found.get(INNER_NUM)
    if text is None or INNER_BASE not in found:
        return 1
    try:
        return max(min(int(text), COUNT_MAX), -1)
    except ValueError:
        return 1


class BatchQueues:
    """The batch queues by (topic, queue id), beside the plain ones."""

    def __init__(
        self, fs: FileSystem, config: StoreConfig, plain: QueueTable, is_batch_topic: Callable[[str], bool | None]
    ) -> None:
        self._fs = fs
        self._plain = plain
        self._is_batch_topic = is_batch_topic
        self.table = QueueTable(
            fs,
            config.batch_consume_queue_dir,
            config.mapper_file_size_batch_consume_queue,
            setting="mapperFileSizeBatchConsumeQueue",
            layout=BATCH_UNIT,
            mark=(6, _NOT_COMPACTED),
        )
        self.queues: dict[tuple[str, int], BatchQueue] = {}
        self._empty = BatchQueue(ConsumeQueue("", 0, "", BATCH_UNIT_SIZE, BATCH_UNIT_SIZE))

    def find(self, topic: str, queue_id: int) -> BatchQueue | None:
        """The queue if the topic is one of batches; an empty one where nothing was sent to it yet."""
        queue = self.queues.get((topic, queue_id))
        return self._empty if queue is None and self._is_batch_topic(topic) else queue

    def load(self) -> None:
        """Find the queues on disk; the folder is made with the first batch topic."""
        if self._fs.exists(self.table.folder):
            self.table.load()
            self.queues = {key: BatchQueue(units) for key, units in self.table.queues.items()}

    def open(self, topic: str, queue_id: int, *, for_batch: bool = False) -> ConsumeQueue:
        """The queue, of the kind that it has or, if it is new, that its topic asks for, or else the message."""
        key = topic, queue_id
        queue = self._plain.queues.get(key) or self.queues.get(key)
        if queue is not None:
            return queue
        is_batch = self._is_batch_topic(topic)
        if not (for_batch if is_batch is None else is_batch):
            return self._plain.open(topic, queue_id)
        self.queues[key] = made = BatchQueue(self.table.open(topic, queue_id))
        return made

    def put(
        self, queue: BatchQueue, physical_offset: int, size: int, tags_code: int, base: int, store_time_ms: int
    ) -> bool:
        """Add the unit of a record; False if it is there already, or claims less than no messages."""
        count, units = queue.counts.pop(physical_offset, 1), queue.units
        end = physical_offset + size
        if count < 0 or end <= queue.max_physical:
            return False
        if base < queue.end_offset:
            # A later record with a smaller offset: the topic was deleted and made again.
            self.table.cut(units, 0)
            queue.min_offset = -1
        units.tail += BATCH_UNIT.pack(physical_offset, size, tags_code, store_time_ms, base, count, _NOT_COMPACTED, 0)
        units.max_offset = units.next_offset = units.max_offset + 1
        units.max_physical = queue.max_physical = end
        units.dirty = True
        queue.end_offset = base + count
        if queue.min_offset < 0:
            queue.min_offset = base
        return True

    # After recovery, deletion, retention

    def count_messages(self) -> None:
        """Learn from the units where the queues begin and end."""
        for queue in self.queues.values():
            self._count(queue)

    def _count(self, queue: BatchQueue) -> None:
        units = queue.units
        queue.max_physical = units.max_physical
        last = self.table.unit(units, units.max_offset - 1)
        if last is None:
            queue.min_offset, queue.end_offset = -1, 0
            return
        queue.end_offset = last[4] + last[5]
        first = self.table.unit(units, units.min_offset)
        queue.min_offset = queue.end_offset if first is None else first[4]

    def start_at_end(self) -> None:
        """The log has no more than the queues: what comes next comes behind."""
        for queue in self.queues.values():
            queue.next_offset = queue.end_offset

    def delete_topic(self, topic: str) -> int:
        count = self.table.delete_topic(topic)
        self._drop_dead()
        return count

    def delete_before(self, min_physical: int) -> None:
        self.table.delete_before(min_physical)
        self.count_messages()

    def delete_expired(self, min_physical: int) -> int:
        """Drop the queues of which no message is left in the log or under way."""
        for queue in self.queues.values():
            under_way = queue.next_offset > queue.end_offset
            queue.units.next_offset = queue.units.max_offset + under_way
        count = self.table.delete_expired(min_physical)
        self._drop_dead()
        return count

    def _drop_dead(self) -> None:
        for key, queue in list(self.queues.items()):
            if not queue.units.alive:
                queue.alive = False
                del self.queues[key]

    # Searching

    def unit_at(self, queue: BatchQueue, offset: int) -> int | None:
        """Number of the unit that covers a message, or of the last before it."""
        units = queue.units
        low, high = units.first_offset, units.max_offset
        while low < high:
            middle = (low + high) // 2
            unit = self.table.unit(units, middle)
            if unit is not None and unit[4] > offset:
                high = middle
            else:
                low = middle + 1
        return low - 1 if low > units.first_offset else None
