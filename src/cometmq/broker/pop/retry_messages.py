"""Storing a message again that was handed out and not acknowledged: in the retry topic of its group and topic.

It keeps body, tags, keys and birth time, counts one consumption more (unless the consumer only asked for time), and
says which group it is for (`ORIGIN_GROUP`) and when it was first handed out (`1ST_POP_TIME`).
How often that may happen is for the client or the proxy to decide, as upstream: they send it to the dead letters.

Mirrors: PopReviveService.reviveRetry, addRetryTopicIfNotExist.
"""

from __future__ import annotations

from cometmq.broker.durability import Durability
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.offsets import Offsets
from cometmq.broker.pop.checkpoint import CheckPoint
from cometmq.broker.pop.retry_topic import NORMAL, mark_of, pop_retry_topic
from cometmq.broker.topics import Topics
from cometmq.model import properties
from cometmq.wire.record import Record


class RetryMessages:
    """Writes to the retry topics of pop."""

    def __init__(
        self,
        messages: InnerMessages,
        durability: Durability,
        topics: Topics,
        offsets: Offsets,
        store_host: bytes,
        *,
        v2: bool,
    ) -> None:
        self._messages = messages
        self._durability = durability
        self._topics = topics
        self._offsets = offsets
        self._store_host = store_host
        self._v2 = v2
        self._end_offset = 0

    def put(self, point: CheckPoint, record: Record) -> None:
        """Store one again."""
        topic = point.topic
        if mark_of(topic) == NORMAL:
            topic = pop_retry_topic(topic, point.group, v2=self._v2)
        self._make_topic(topic, point.group)
        message = InnerMessage.of(record)
        message.topic, message.queue_id = topic, 0
        message.born_host = self._store_host
        found = message.properties
        if record.reconsume_times == 0 or properties.FIRST_POP_TIME not in found:
            found[properties.FIRST_POP_TIME] = str(point.pop_time_ms)
        found[properties.ORIGIN_GROUP] = point.group
        message.properties = found
        message.prepared_offset = 0
        if not point.suspend:
            message.reconsume_times += 1
        placed = self._messages.put(message)
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
