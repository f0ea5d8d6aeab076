"""When a message has been tried often enough, and the topic it then rests in: `%DLQ%group`.

The maximum is the group's, unless the request names its own and comes from a client that can (3.4.9 and later). The
topic is made with its first message, readable, so that it can be browsed.

    sent back (36)            dead at  reconsumeTimes ≥ maximum, and when the consumer gives up
    sent to %RETRY% directly  dead at  reconsumeTimes > maximum, and at once for a group that holds queue locks:
                                       one that consumes in order tries again by itself before it sends

Mirrors: AbstractSendMessageProcessor.consumerSendMsgBack, SendMessageProcessor.handleRetryAndDLQ.
"""

from __future__ import annotations

import random
from typing import Final

from cometmq.broker.groups import Groups
from cometmq.broker.locks.table import QueueLocks
from cometmq.broker.topics import Topics
from cometmq.errors import RequestRefused
from cometmq.model import names
from cometmq.model.group import GroupConfig
from cometmq.wire.codes import VERSION_OWN_MAXIMUM

QUEUE_NUMS: Final = 1


class DeadLetters:
    """Says which messages are dead, and where they go."""

    def __init__(self, groups: Groups, topics: Topics, locks: QueueLocks) -> None:
        self._groups = groups
        self._topics = topics
        self._locks = locks

    def group(self, name: str) -> GroupConfig:
        """The group, made now if it may be."""
        group = self._groups.find(name)
        if group is None:
            raise RequestRefused(
                "SUBSCRIPTION_GROUP_NOT_EXIST",
                f"subscription group not exist, {name}: create it, or set autoCreateSubscriptionGroup=true",
            )
        return group

    def place(self, group_name: str) -> tuple[str, int]:
        """Topic and queue for a dead message of the group."""
        topic = names.DLQ_PREFIX + group_name
        self._topics.create_on_send_back(topic, QUEUE_NUMS)
        return topic, random.randrange(QUEUE_NUMS)

    def place_of_retry(
        self, retry_topic: str, reconsume_times: int, own_maximum: int | None, version: int
    ) -> tuple[str, int] | None:
        """For a message that a client sends to a retry topic by itself: where it goes instead, if it is dead."""
        group = self.group(names.group_of_retry(retry_topic))
        in_order = not self._locks.all_expired(group.name)
        if not in_order and reconsume_times <= times_max(group, own_maximum, version):
            return None
        return self.place(group.name)


def times_max(group: GroupConfig, own_maximum: int | None, version: int) -> int:
    """How often a message may be tried again."""
    return own_maximum if own_maximum is not None and version >= VERSION_OWN_MAXIMUM else group.retry_max_times
