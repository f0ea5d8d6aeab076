"""Storing a message again that was handed out and not acknowledged: in the retry topic of its group and topic.

It keeps body, tags, keys and birth time, counts one consumption more (unless the consumer only asked for time), and
says which group it is for (`ORIGIN_GROUP`) and when it was first handed out (`1ST_POP_TIME`).
How often that may happen is for the client or the proxy to decide, as upstream: they send it to the dead letters.

A batch that was stored as one record comes again as its messages, since retry topics are of the plain kind; the
original never brings it again. What the store refuses (larger than `maxMessageSize` by now) gets a checkpoint of its
own, for later; so do messages of another broker's checkpoint that cannot be read now.

Mirrors: PopReviveService.reviveRetry, addRetryTopicIfNotExist, rePutCK.
"""

from __future__ import annotations

import logging
from typing import Final

from cometmq.broker.durability import Durability
from cometmq.broker.inner_batches import INNER_BATCH, plain_messages
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.offsets import Offsets
from cometmq.broker.pop.checkpoint import CheckPoint
from cometmq.broker.pop.retry_topic import NORMAL, mark_of, pop_retry_topic
from cometmq.broker.pop.revive_log import ReviveLog
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.errors import CometError, MessageRefused, RequestRefused
from cometmq.model import properties
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.broker")

PUT_AGAIN_AFTER_S: Final = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


class RetryMessages:
    """Writes to the retry topics of pop."""

    def __init__(
        self,
        messages: InnerMessages,
        revive_log: ReviveLog,
        durability: Durability,
        topics: Topics,
        offsets: Offsets,
        store_host: bytes,
        clock: Clock,
        *,
        v2: bool,
    ) -> None:
        self._messages = messages
        self._revive_log = revive_log
        self._clock = clock
        self._durability = durability
        self._topics = topics
        self._offsets = offsets
        self._store_host = store_host
        self._v2 = v2
        self._end_offset = 0

    def put(self, point: CheckPoint, record: Record) -> None:
        """Store one again."""
        if not record.sys_flag & INNER_BATCH:
            self._put(point, record)
            return
        try:
            singles = plain_messages(record)
        except RequestRefused as refusal:
            self.put_again_later(point, [record.queue_offset], refusal)
            return
        for single in singles:
            self._put(point, single)

    def _put(self, point: CheckPoint, record: Record) -> None:
        topic = point.topic
        if mark_of(topic) == NORMAL:
            topic = pop_retry_topic(topic, point.group, v2=self._v2)
        self._make_topic(topic, point.group)
        message = InnerMessage.of(record)
        message.topic, message.queue_id = topic, 0
        message.born_host = self._store_host
        message.prepared_offset = 0
        if not point.suspend:
            message.reconsume_times += 1
        plain = message.properties
        marks = {properties.ORIGIN_GROUP: point.group}
        if record.reconsume_times == 0 or properties.FIRST_POP_TIME not in plain:
            marks[properties.FIRST_POP_TIME] = str(point.pop_time_ms)
        message.properties = {**plain, **marks}
        if len(properties.render(message.properties).encode()) > properties.PROPERTIES_SIZE_MAX:
            message.properties = plain  # no room: better without than not at all
        try:
            placed = self._messages.put(message)
        except (MessageRefused, RequestRefused) as refusal:
            self.put_again_later(point, [record.queue_offset], refusal)
        else:
            self._end_offset = placed.physical_offset + placed.size

    def put_again_later(self, point: CheckPoint, offsets: list[int], why: CometError) -> None:
        """A new checkpoint for what cannot be stored now, after a pause that grows."""
        times, first = point.put_again, offsets[0]
        log.warning(
            "%s queue %d: %d message(s) from %d on are not revived yet: %s",
            point.topic, point.queue_id, len(offsets), first, why,
        )  # fmt: skip
        pause_s = PUT_AGAIN_AFTER_S[min(times, len(PUT_AGAIN_AFTER_S) - 1)]
        later = CheckPoint(
            point.topic,
            point.group,
            point.queue_id,
            first,
            point.pop_time_ms,
            self._clock.now_ms() - point.pop_time_ms + pause_s * 1000,
            point.broker_name,
            [offset - first for offset in offsets],
            suspend=point.suspend,
            put_again=times + 1,
        )
        placed = self._revive_log.put_checkpoint(later, first % self._revive_log.queue_nums)
        self._end_offset = placed.physical_offset + placed.size

    def _make_topic(self, topic: str, group: str) -> None:
        if topic in self._topics:
            return
        self._topics.create_on_send_back(topic, 1)
        if self._offsets.query(group, topic, 0) is None:
            self._offsets.commit(group, topic, 0, 0)

    async def safe(self) -> None:
        """Return when all that was put is as safe as an acknowledged message."""
        await self._durability.safe(self._end_offset)
