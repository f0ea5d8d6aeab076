"""The topic and queue that a message is sent to: checked, and the topic made where that may be.

Mirrors: AbstractSendMessageProcessor.msgCheck.
"""

from __future__ import annotations

import random

from cometmq.broker.config import BrokerConfig
from cometmq.broker.topics import Topics
from cometmq.errors import RequestRefused
from cometmq.model import names
from cometmq.model.sysflag import Perm
from cometmq.model.topic import TopicConfig
from cometmq.net.routes import Call
from cometmq.wire.requests.send import SendBatchMessage, SendMessage, SendMessageV2

AnySend = SendMessage | SendMessageV2 | SendBatchMessage


class TargetTopics:
    """Where producers may send to."""

    def __init__(self, config: BrokerConfig, topics: Topics) -> None:
        self._topics = topics
        self._broker_ip = config.broker_ip1
        self._broker_writable = bool(config.broker_permission & Perm.WRITE)

    def topic(self, request: AnySend, call: Call) -> TopicConfig:
        """The topic to send to, made now if it may be."""
        name = request.topic
        topic = self._topics.get(name)
        if topic is None or name in names.NOT_SENDABLE_TOPICS:
            topic = self._new_topic(request)
        if not self._broker_writable and topic.order:
            raise RequestRefused("NO_PERMISSION", f"the broker[{self._broker_ip}] sending message is forbidden")
        if request.queue_id >= topic.write_queue_nums and request.queue_id >= topic.read_queue_nums:
            raise RequestRefused(
                "INVALID_PARAMETER",
                f"request queueId[{request.queue_id}] is illegal, {topic} Producer: {call.channel.peer}",
            )
        return topic

    def _new_topic(self, request: AnySend) -> TopicConfig:
        fault = names.topic_fault(request.topic)
        if fault is not None:
            raise RequestRefused("INVALID_PARAMETER", fault)
        if request.topic in names.NOT_SENDABLE_TOPICS:
            raise RequestRefused("NO_PERMISSION", f"Sending message to topic[{request.topic}] is forbidden.")
        topic = self._topics.create_on_send(
            request.topic, request.default_topic, request.default_topic_queue_nums, unit_mode=request.unit_mode
        )
        if topic is None:
            raise RequestRefused(
                "TOPIC_NOT_EXIST",
                f"topic[{request.topic}] not exist, apply first please! Create it, or set autoCreateTopicEnable=true",
            )
        return topic


def queue_id_of(request: AnySend, topic: TopicConfig) -> int:
    """The queue asked for; a negative one leaves the choice to us."""
    if request.queue_id >= 0:
        return request.queue_id
    if topic.write_queue_nums <= 0:
        raise RequestRefused("SYSTEM_ERROR", f"topic[{topic.name}] has no queue to write to")
    return random.randrange(topic.write_queue_nums)
