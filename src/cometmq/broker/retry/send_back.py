"""A consumer sends a message back: it is stored once more, for the group's retry topic, and delayed.

    orders/1 ──36──► SCHEDULE_TOPIC_XXXX (level 3 + times, or as asked) ──► %RETRY%group ──36──► … ──► %DLQ%group

The message is named by its physical offset, so it needs no body on the wire. The first time it is given RETRY_TOPIC
(where it came from) and ORIGIN_MESSAGE_ID; both stay. The answer leaves when the new record is as safe as a sent one:
with it the consumer's offset moves on, and nothing else would remember the message. (The original does not wait.)

Mirrors: AbstractSendMessageProcessor.consumerSendMsgBack.
"""

from __future__ import annotations

import random
from typing import Final

from cometmq.broker.admission import Admission
from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.retry.dead_letters import DeadLetters, times_max
from cometmq.broker.topics import UNIT_SUBSCRIBED, Topics
from cometmq.errors import CometError, MessageRefused, RequestRefused
from cometmq.model import names, properties
from cometmq.model.sysflag import Perm
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire.message_id import offset_id
from cometmq.wire.record import Record
from cometmq.wire.requests.delay import ConsumerSendMsgBack
from cometmq.wire.schema import Header

FIRST_LEVEL: Final = 3  # of a consumer that leaves the level to us
# Where messages are that nobody may consume yet, perhaps never.
WAITING_TOPICS: Final = frozenset(
    {
        names.SCHEDULE_TOPIC,
        names.TIMER_TOPIC,
        names.HALF_TOPIC,
        names.HALF_OP_TOPIC,
        names.ROCKSDB_HALF_TOPIC,
        names.ROCKSDB_HALF_OP_TOPIC,
    }
)


class SendBack:
    """Takes messages back from consumers."""

    def __init__(
        self,
        config: BrokerConfig,
        dead_letters: DeadLetters,
        topics: Topics,
        reader: InnerReader,
        messages: InnerMessages,
        durability: Durability,
        admission: Admission,
    ) -> None:
        self._dead_letters = dead_letters
        self._topics = topics
        self._reader = reader
        self._messages = messages
        self._durability = durability
        self._admission = admission
        self._broker_ip = config.broker_ip1
        self._broker_writable = bool(config.broker_permission & Perm.WRITE)

    @handles(ConsumerSendMsgBack)
    def send_back(self, request: ConsumerSendMsgBack, call: Call) -> Header | Later:
        self._admission.check()
        group = self._dead_letters.group(request.group)
        if not self._broker_writable:
            raise RequestRefused("NO_PERMISSION", f"the broker[{self._broker_ip}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return DONE  # a group that wants no retries
        if request.offset is None or request.delay_level is None:
            raise RequestRefused("SYSTEM_ERROR", "the request must name the message's offset and a delayLevel")
        retry_topic = names.RETRY_PREFIX + group.name
        known = self._topics.get(retry_topic)
        if known is not None and not known.perm & Perm.WRITE:
            raise RequestRefused("NO_PERMISSION", f"the topic[{retry_topic}] sending message is forbidden")
        record = self._reader.record_at(request.offset)
        if record is None:
            raise RequestRefused(
                "SYSTEM_ERROR", f"look message by offset failed, {request.offset}: no message stands there any more"
            )
        if record.topic in WAITING_TOPICS:
            raise RequestRefused(
                "SYSTEM_ERROR", f"the message at {request.offset} belongs to the broker: it still waits"
            )
        self._topics.create_on_send_back(
            retry_topic, group.retry_queue_nums, sys_flag=UNIT_SUBSCRIBED if request.unit_mode else 0
        )
        message = _again(record)
        limit = times_max(group, request.max_reconsume_times, call.command.version)
        if record.reconsume_times >= limit or request.delay_level < 0:
            message.topic, message.queue_id = self._dead_letters.place(group.name)
            message.properties[properties.DELAY] = "0"
        else:
            message.topic, message.queue_id = retry_topic, random.randrange(group.retry_queue_nums)
            message.properties[properties.DELAY] = str(request.delay_level or FIRST_LEVEL + record.reconsume_times)
        self._store(message, call)
        return LATER

    def _store(self, message: InnerMessage, call: Call) -> None:
        try:
            placed = self._messages.put(message)
        except MessageRefused as refused:
            raise RequestRefused("SYSTEM_ERROR", f"MESSAGE_ILLEGAL: {refused}") from None

        def answer(fault: BaseException | None) -> None:
            if fault is None:
                call.reply()
            else:
                call.refuse(fault if isinstance(fault, CometError) else CometError(str(fault)))

        self._durability.when_safe(placed.physical_offset + placed.size, answer)


def _again(record: Record) -> InnerMessage:
    """The message once more, as its consumer will see it the next time."""
    message = InnerMessage.of(record)
    found = message.properties
    found.setdefault(properties.RETRY_TOPIC, record.topic)
    found[properties.WAIT] = "false"
    if not found.get(properties.ORIGIN_MESSAGE_ID, "").strip():
        found[properties.ORIGIN_MESSAGE_ID] = offset_id(record.store_host, record.physical_offset)
    found.pop(properties.DELIVERED_MARK, None)
    message.reconsume_times += 1
    message.prepared_offset = 0
    return message
