"""Writing to the revive topic: checkpoints and acknowledgements, through the timer.

    checkpoint       comes out of the timer a second before its messages become visible again
    acknowledgement  comes out when they do, behind its checkpoint
    late ones        are in the revive topic at once

So the reader of a revive queue finds what is due, in time's order, and nothing that is far away. What waits is in the
timer's files: handing out a million messages costs no memory here.

Mirrors: PopMessageProcessor.buildCkMsg, AckMessageProcessor.appendAck.
"""

from __future__ import annotations

from typing import Final

from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.pop.checkpoint import ACK_TAG, BATCH_ACK_TAG, CK_TAG, Ack, CheckPoint
from cometmq.clock import Clock
from cometmq.model import properties
from cometmq.store.append import Appended

ACK_TIME_INTERVAL_MS: Final = 1_000


class ReviveLog:
    """The revive topic of this broker, as its writers see it."""

    def __init__(self, topic: str, queue_nums: int, messages: InnerMessages, store_host: bytes, clock: Clock) -> None:
        self.topic = topic
        self.queue_nums = queue_nums
        self._messages = messages
        self._store_host = store_host
        self._clock = clock

    def __contains__(self, queue_id: object) -> bool:
        """Whether there is such a revive queue: a made-up receipt may name any."""
        return isinstance(queue_id, int) and 0 <= queue_id < self.queue_nums

    def put_checkpoint(self, point: CheckPoint, queue_id: int) -> Appended:
        """Messages were handed out."""
        deliver_ms = point.revive_time_ms - ACK_TIME_INTERVAL_MS
        return self._put(queue_id, CK_TAG, point.to_body(), point.unique_id, deliver_ms)

    def put_ack(self, ack: Ack, queue_id: int, revive_time_ms: int, *, batch: bool) -> Appended:
        """Some of them are done."""
        tag = BATCH_ACK_TAG if batch else ACK_TAG
        return self._put(queue_id, tag, ack.to_body(batch=batch), ack.unique_id(batch=batch), revive_time_ms)

    def _put(self, queue_id: int, tag: str, body: bytes, unique_id: str, deliver_ms: int) -> Appended:
        found = {
            properties.TIMER_DELIVER_MS: str(deliver_ms),
            properties.UNIQ_KEY: unique_id,
            properties.TAGS: tag,
        }
        now_ms = self._clock.now_ms()
        return self._messages.put(
            InnerMessage(self.topic, queue_id, body, found, born_time_ms=now_ms, born_host=self._store_host)
        )
