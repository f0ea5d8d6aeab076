"""Appending: a message gets its queue offset, its place in the log and its bytes, in one step.

No await and no system call stands between the three (but for the rare new segment), so the order of a queue
needs no lock. This is the hot path: one function, positional packing, no helper calls per message.

A prepared or rolled-back transaction message takes no queue offset and no ConsumeQueue unit.
`body` and `properties_data` may be views of a receive buffer: they must stay unchanged until `CommitLog.write`.

Mirrors: CommitLog.asyncPutMessage, DefaultAppendMessageCallback.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, NoReturn, cast
from zlib import crc32

from cometmq import compiled
from cometmq.clock import Clock
from cometmq.errors import MessageRefused, StoreNotWritable
from cometmq.model.java_hash import tags_code
from cometmq.model.names import stored_topic_fault
from cometmq.model.properties import PROPERTIES_SIZE_MAX
from cometmq.model.sysflag import TRANSACTION_MASK, TRANSACTION_UNSEEN, MessageFlag
from cometmq.store.batch_queue import BatchQueues
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.delivery_time import DeliveryTimes
from cometmq.store.fs import Buffer
from cometmq.store.queue_table import QueueTable
from cometmq.wire.record import HEADS

UNDISPATCHED_MAX: Final = 1_000_000  # messages appended and not yet confirmed

_SHORT: Final = Struct(">H")
# Plain integers: those of the enumeration are slow.
_BORN_V6: Final = int(MessageFlag.BORN_HOST_V6)
_STORE_V6: Final = int(MessageFlag.STORE_HOST_V6)
_V6_BITS: Final = _BORN_V6 | _STORE_V6


class Appended(NamedTuple):
    """Where a message stands."""

    physical_offset: int
    size: int
    queue_offset: int
    store_time_ms: int


_appended: Final = tuple.__new__  # half the price of the class's own


class AppendedBatch(NamedTuple):
    """Where the messages of a batch stand."""

    physical_offsets: list[int]
    queue_offset: int  # of the first
    end: int


# What dispatch must know of a message: end, queue, physical offset, size, tags code, queue offset (-1: takes no
# place in the queue), keys, unique key, store time, sysFlag, tags. A plain tuple, for speed.
Entry = tuple[int, ConsumeQueue, int, int, int, int, "str | None", "str | None", int, int, "str | None"]
# What a quicker way needs to append to a queue: whether batches, the queue's key and itself, a record's head with gaps,
# the topic as records carry it, the sysFlag of records, the queue's id in digits.
SendRoute = tuple[bool, tuple[str, int], ConsumeQueue, bytes, bytes, int, bytes]
BatchItem = tuple[
    int, Buffer, bytes, "str | None", "str | None", "str | None"
]  # flag, body, properties, tags, keys, uniq key


class Appender:
    """Encodes messages into the log's pending bytes."""

    def __init__(
        self,
        log: CommitLog,
        table: QueueTable,
        batches: BatchQueues,
        config: StoreConfig,
        clock: Clock,
        store_host: bytes,
    ) -> None:
        self.log = log
        self.queues = table.queues
        self._batches = batches
        self._body_size_max = config.max_message_size
        self._now_ms = clock.now_ms
        self._delivery_times = DeliveryTimes(config.message_delay_level)
        self._store_host = store_host
        self._store_bits = _STORE_V6 if len(store_host) == 20 else 0
        self.undispatched: deque[Entry]
        self.undispatched = deque()
        self.refused = 0  # messages

    def append(
        self,
        topic: str,
        queue_id: int,
        body: Buffer,
        properties_data: bytes,
        tags: str | None = None,
        keys: str | None = None,
        uniq_key: str | None = None,
        flag: int = 0,
        sys_flag: int = 0,
        born_time_ms: int = 0,
        born_host: bytes = bytes(8),
        reconsume_times: int = 0,
        prepared_offset: int = 0,
    ) -> Appended:
        """Put one message behind the last. A refusal uses nothing up."""
        log = self.log
        body_size = len(body)
        properties_size = len(properties_data)
        if (
            body_size > self._body_size_max
            or properties_size > PROPERTIES_SIZE_MAX
            or log.refusal is not None
            or len(self.undispatched) > UNDISPATCHED_MAX
        ):
            self._refuse(body_size, properties_size)
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            queue = self.queue(topic, queue_id)
        sys_flag = sys_flag & ~_V6_BITS | self._store_bits
        if len(born_host) != 8:
            sys_flag |= _BORN_V6
        head = HEADS[sys_flag & _V6_BITS]
        topic_part = queue.topic_part
        size = head.size + body_size + len(topic_part) + 2 + properties_size
        if log.end + size + 8 > log.limit:
            log.roll(size)
        now_ms = self._now_ms()
        if now_ms < log.last_store_time_ms:
            now_ms = log.last_store_time_ms
        else:
            log.last_store_time_ms = now_ms
        at = log.end
        if sys_flag & TRANSACTION_UNSEEN:
            queue_offset, unit_offset = 0, -1
        else:
            queue_offset = unit_offset = queue.next_offset
            queue.next_offset = queue_offset + 1
        log.parts += (
            head.pack(
                size,
                queue.magic,
                crc32(body) & 0x7FFFFFFF,
                queue_id,
                flag,
                queue_offset,
                at,
                sys_flag,
                born_time_ms,
                born_host,
                now_ms,
                self._store_host,
                reconsume_times,
                prepared_offset,
                body_size,
            ),
            body,
            topic_part,
            _SHORT.pack(properties_size),
            properties_data,
        )
        log.end = end = at + size
        self.undispatched.append(
            (end, queue, at, size, tags_code(tags), unit_offset, keys, uniq_key, now_ms, sys_flag, tags)
        )
        return _appended(Appended, (at, size, queue_offset, now_ms))

    def append_delayed(self, level_text: str, *message: Any) -> Appended:
        """As `append`, for the schedule topic: the queue's unit says when to deliver instead of the tags' hash."""
        placed = self.append(*message)
        end, queue, at, size, code, *rest = self.undispatched.pop()
        code = self._delivery_times.tags_code(level_text, placed.store_time_ms, code)
        self.undispatched.append(cast(Entry, (end, queue, at, size, code, *rest)))
        return placed

    def append_batch(
        self,
        topic: str,
        queue_id: int,
        items: Sequence[BatchItem],
        sys_flag: int = 0,
        born_time_ms: int = 0,
        born_host: bytes = bytes(8),
        reconsume_times: int = 0,
    ) -> AppendedBatch:
        """Put a batch behind the last message: all of it, in one segment, or nothing."""
        if sys_flag & TRANSACTION_MASK:
            raise MessageRefused("a batch cannot be part of a transaction: send its messages one by one")
        if not items:
            raise MessageRefused("the batch is empty: put at least one message in it")
        bodies_size = sum([len(item[1]) for item in items])
        properties_sizes = [len(item[2]) for item in items]
        if bodies_size > self._body_size_max or max(properties_sizes) > PROPERTIES_SIZE_MAX:
            self._refuse(bodies_size, max(properties_sizes))
        queue = self.queues.get((topic, queue_id)) or self.queue(topic, queue_id)
        bits = self._store_bits | (_BORN_V6 if len(born_host) != 8 else 0)
        fixed = HEADS[bits].size + len(queue.topic_part) + 2
        size = fixed * len(items) + bodies_size + sum(properties_sizes)
        if self.log.refusal is not None or len(self.undispatched) + len(items) > UNDISPATCHED_MAX:
            self._refuse(0, 0)
        if self.log.end + size + 8 > self.log.limit:
            self.log.roll(size)
        append_all = self._append_all if compiled.twins is None else self._append_all_compiled
        return append_all(queue, items, sys_flag & ~_V6_BITS | bits, born_time_ms, born_host, reconsume_times)

    def _append_all(
        self,
        queue: ConsumeQueue,
        items: Sequence[BatchItem],
        sys_flag: int,
        born_time_ms: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> AppendedBatch:
        """`append` for many, with what they share worked out once."""
        log, parts, remember = self.log, self.log.parts, self.undispatched.append
        head, queue_id, magic, store_host = HEADS[sys_flag & _V6_BITS], queue.queue_id, queue.magic, self._store_host
        pack_head, pack_short, topic_part = head.pack, _SHORT.pack, queue.topic_part
        fixed_size = head.size + len(topic_part) + 2
        now_ms = log.last_store_time_ms = max(self._now_ms(), log.last_store_time_ms)
        first = queue_offset = queue.next_offset
        at = log.end
        offsets: list[int] = []
        last_tags, code = None, 0
        for flag, body, properties_data, tags, keys, uniq_key in items:
            if tags is not last_tags:
                last_tags, code = tags, tags_code(tags)
            body_size, properties_size = len(body), len(properties_data)
            size = fixed_size + body_size + properties_size
            parts += (
                pack_head(
                    size, magic, crc32(body) & 0x7FFFFFFF, queue_id, flag, queue_offset, at, sys_flag, born_time_ms,
                    born_host, now_ms, store_host, reconsume_times, 0, body_size,
                ),
                body,
                topic_part,
                pack_short(properties_size),
                properties_data,
            )  # fmt: skip
            end = at + size
            remember((end, queue, at, size, code, queue_offset, keys, uniq_key, now_ms, sys_flag, tags))
            offsets.append(at)
            queue_offset += 1
            at = end
        queue.next_offset, log.end = queue_offset, at
        return AppendedBatch(offsets, first, at)

    def _append_all_compiled(
        self,
        queue: ConsumeQueue,
        items: Sequence[BatchItem],
        sys_flag: int,
        born_time_ms: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> AppendedBatch:
        """`_append_all` by the extension, which fills in what differs from record to record."""
        log, first, at = self.log, queue.next_offset, self.log.end
        now_ms = log.last_store_time_ms = max(self._now_ms(), log.last_store_time_ms)
        head = HEADS[sys_flag & _V6_BITS].pack(
            0, queue.magic, 0, queue.queue_id, 0, 0, 0, sys_flag, born_time_ms, born_host, now_ms, self._store_host,
            reconsume_times, 0, 0,
        )  # fmt: skip
        records, offsets = compiled.twins.batch_records(
            items, head, queue.topic_part, at, first, queue, now_ms, sys_flag, crc32, tags_code,
            self.undispatched.append,
        )  # fmt: skip
        log.parts.append(records)
        queue.next_offset, log.end = first + len(offsets), at + len(records)
        return AppendedBatch(offsets, first, log.end)

    def route(
        self, topic: str, queue_id: int, flag: int, sys_flag: int, reconsume_times: int, *, is_batch: bool
    ) -> SendRoute | None:
        """For `SendLane`, which appends as `append` and `append_batch` do; None if the queue is not open yet."""
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            return None
        sys_flag = sys_flag & ~_V6_BITS | self._store_bits
        head = HEADS[self._store_bits].pack(
            0, queue.magic, 0, queue_id, 0 if is_batch else flag, 0, 0, sys_flag, 0, bytes(8), 0, self._store_host,
            reconsume_times, 0, 0,
        )  # fmt: skip
        return is_batch, (topic, queue_id), queue, head, queue.topic_part, sys_flag, b"%d" % queue_id

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """A queue of any kind. A new one becomes a folder, so its name is checked again, whoever asked for it."""
        known = self._batches.queues.get((topic, queue_id))
        if known is not None:
            return known
        fault = stored_topic_fault(topic) or (
            f"The specified queue id: {queue_id}, is negative." if queue_id < 0 else None
        )
        if fault is not None:
            raise MessageRefused(fault)
        return self._batches.open(topic, queue_id)

    def _refuse(self, body_size: int, properties_size: int) -> NoReturn:
        self.refused += 1
        if body_size > self._body_size_max:
            raise MessageRefused(
                f"the body has {body_size} bytes, more than maxMessageSize ({self._body_size_max}): send it smaller"
            )
        if properties_size > PROPERTIES_SIZE_MAX:
            raise MessageRefused(
                f"the properties take {properties_size} bytes; {PROPERTIES_SIZE_MAX} fit: use fewer or shorter ones"
            )
        raise StoreNotWritable(
            self.log.refusal or f"the disk is too slow: {len(self.undispatched)} messages wait for it; send slower"
        )
