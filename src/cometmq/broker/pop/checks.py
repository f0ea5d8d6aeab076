"""What pop, peek, notification and polling info check alike, in Java's order.

Mirrors: the first half of PopMessageProcessor.processRequest and its kin.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

from cometmq.broker.config import BrokerConfig
from cometmq.broker.filters import matcher
from cometmq.broker.groups import Groups
from cometmq.broker.topics import Topics
from cometmq.errors import CometError, RequestRefused
from cometmq.filter import tags
from cometmq.model.group import GroupConfig
from cometmq.model.sysflag import Perm
from cometmq.model.topic import TopicConfig
from cometmq.net.routes import Call
from cometmq.store.reader import Matches
from cometmq.wire.schema import Header

_READ: Final = int(Perm.READ)


class Checked(NamedTuple):
    topic: TopicConfig
    group: GroupConfig


class Checks:
    """Whether a group may read from a topic here."""

    def __init__(self, config: BrokerConfig, topics: Topics, groups: Groups) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups

    def broker(self, doing: str) -> None:
        if not self._config.broker_permission & _READ:
            raise RequestRefused("NO_PERMISSION", f"the broker[{self._config.broker_ip1}] {doing} message is forbidden")

    def topic_and_group(self, topic_name: str, queue_id: int, group_name: str, call: Call) -> Checked:
        topic = self.topic(topic_name)
        if not topic.perm & _READ:
            raise RequestRefused("NO_PERMISSION", f"the topic[{topic_name}] peeking message is forbidden")
        if queue_id >= topic.read_queue_nums:
            raise illegal_queue("INVALID_PARAMETER", topic, queue_id, call)
        group = self._groups.find(group_name)
        if group is None:
            raise RequestRefused(
                "SUBSCRIPTION_GROUP_NOT_EXIST",
                f"subscription group [{group_name}] does not exist: create it, or set autoCreateSubscriptionGroup=true",
            )
        if not group.consume_enable:
            raise RequestRefused("NO_PERMISSION", f"subscription group no permission, {group_name}")
        return Checked(topic, group)

    def topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise RequestRefused("TOPIC_NOT_EXIST", f"topic[{name}] not exist, apply first please!")
        return topic

    def receipt_place(self, topic_name: str, queue_id: int | None, call: Call) -> int:
        """The queue that a receipt is about; one that is not there makes the message illegal."""
        topic = self.topic(topic_name)
        if queue_id is None:
            raise null_field("queueId")
        if not 0 <= queue_id < topic.read_queue_nums:
            raise illegal_queue("MESSAGE_ILLEGAL", topic, queue_id, call)
        return queue_id


def illegal_queue(response: str, topic: TopicConfig, queue_id: int, call: Call) -> RequestRefused:
    return RequestRefused(
        response,
        f"queueId[{queue_id}] is illegal, topic:[{topic.name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{call.channel.peer}]",
    )


def null_field(name: str) -> RequestRefused:
    return RequestRefused("SYSTEM_ERROR", f"the custom field <{name}> is null")


def wanted(topic: str, expression: str | None, expression_type: str | None) -> Matches | None:
    """The test that reads are given, by tags or by SQL92, whatever `enablePropertyFilter` says; None for no test."""
    if not expression:
        return None
    return matcher(tags.build(topic, expression, expression_type))


Handler = TypeVar("Handler", bound=Callable[..., Any])


def refusing_with(blank: Header) -> Callable[[Handler], Handler]:
    """Let the refusals of a handler carry the fields of its answer, as Java's do: all of them zero."""
    fields = blank.write()

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def handle(*arguments: Any) -> Any:
            try:
                return handler(*arguments)
            except CometError as refusal:
                if refusal.response != "SYSTEM_ERROR":
                    refusal.fields = refusal.fields or fields
                raise

        return cast(Handler, handle)

    return decorate
