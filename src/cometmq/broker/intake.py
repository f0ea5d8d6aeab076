"""Taking in one message: its properties are completed, it is appended, and its producer is told when it is safe.

A plain message takes the short way. One whose properties name a key that a stage claims goes through
`inner_messages.py`, where it may be sent elsewhere.

Mirrors: SendMessageProcessor.sendMessage.
"""

from __future__ import annotations

from typing import NamedTuple

from cometmq.broker.acknowledgements import Receipt, TimedReceipt
from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.sent_properties import SentProperties, closed, waits
from cometmq.broker.topics import Topics
from cometmq.errors import MessageRefused, ProtocolError, RequestRefused
from cometmq.model import names, properties
from cometmq.model.priority import queue_of_priority
from cometmq.net.routes import Call
from cometmq.store.engine import Store
from cometmq.wire.recall_handle import handle_of


class Destination(NamedTuple):
    """What the header of a send comes to once it is checked."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    reconsume_times: int


class Intake:
    """Takes messages that have passed the checks of their header."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        store: Store,
        durability: Durability,
        messages: InnerMessages,
        sent: SentProperties,
    ) -> None:
        self._topics = topics
        self._store = store
        self._durability = durability
        self._messages = messages
        self._special_keys = messages.special_keys
        self._special_keys.update((properties.PRIORITY, properties.LITE_TOPIC))
        self._sent = sent
        self._broker_ip = config.broker_ip1
        self._broker_name = config.broker_name
        self._transactions_refused = config.reject_transaction_message
        self._id_prefix = store.store_host.hex().upper()

    def take(self, destination: Destination, born_time_ms: int, given: str, call: Call) -> None:
        topic, queue_id, flag, sys_flag, reconsume_times = destination
        if not call.command.body:
            raise ProtocolError(f"the message to {topic} has no body; send at least one byte")
        given = closed(given)
        sent = self._sent.read(given)
        if sent is not None and sent[2].plain:
            uniq_key, keys, (tags, waiting, _) = sent
            text = given + self._sent.own_text
        else:
            text, found = self.complete(given)
            uniq_key, tags, keys = found[properties.UNIQ_KEY], found.get(properties.TAGS), found.get(properties.KEYS)
            waiting = waits(found)
            if not found.keys().isdisjoint(self._special_keys):
                self.take_special(destination, born_time_ms, found, call)
                return
        if waiting:
            self._durability.check_replicas()
        try:
            at, size, queue_offset, _ = self._store.append(
                topic,
                queue_id,
                call.command.body,
                text.encode(),
                tags,
                keys,
                uniq_key,
                flag,
                sys_flag,
                born_time_ms,
                call.channel.peer_host,
                reconsume_times,
                0,
            )
        except MessageRefused as refused:
            raise illegal(refused, self._store) from None
        receipt = Receipt(f"{self._id_prefix}{at:016X}", queue_id, queue_offset, uniq_key)
        self._durability.answer_when_safe(at + size, call, receipt, sync=waiting)

    def take_special(
        self,
        destination: Destination,
        born_time_ms: int,
        found: dict[str, str],
        call: Call,
        instead: tuple[str, int] | None = None,
    ) -> None:
        """A message that some stage may send elsewhere: delayed, timed, half of a transaction.

        One that goes to another topic and queue `instead` is acknowledged with the queue it was sent to.
        """
        topic, queue_id, flag, sys_flag, reconsume_times = destination
        found.update(self._sent.own)
        if properties.PRIORITY in found and (known := self._topics.get(topic)) is not None:
            queue_id = queue_of_priority(found, queue_id, known.write_queue_nums)
        if properties.LITE_TOPIC in found:
            found[properties.MULTI_DISPATCH] = names.lite_queue(topic, found[properties.LITE_TOPIC])
        message = InnerMessage(
            *(instead or (topic, queue_id)),
            call.command.body,
            found,
            flag,
            sys_flag,
            born_time_ms,
            call.channel.peer_host,
            reconsume_times,
        )
        uniq_key, waiting = found[properties.UNIQ_KEY], waits(found)  # a stage may take them away
        if waiting:
            self._durability.check_replicas()
        try:
            at, size, queue_offset, _ = self._messages.put(message, from_producer=True)
        except MessageRefused as refused:
            raise illegal(refused, self._store) from None
        msg_id = f"{self._id_prefix}{at:016X}"
        receipt = Receipt(msg_id, queue_id, queue_offset, uniq_key)
        recall_handle = handle_of(message.properties, self._broker_name)
        if recall_handle is not None:
            receipt = TimedReceipt(msg_id, queue_id, queue_offset, None, uniq_key, recall_handle)
        self._durability.answer_when_safe(at + size, call, receipt, sync=waiting)

    def complete(self, given: str) -> tuple[str, dict[str, str]]:
        """The properties as they are stored, as text and as pairs."""
        text, found = self._sent.complete(given)
        if self._transactions_refused and found.get(properties.TRANSACTION_PREPARED, "").lower() == "true":
            raise RequestRefused(
                "NO_PERMISSION", f"the broker[{self._broker_ip}] sending transaction message is forbidden"
            )
        return text, found


def illegal(refused: MessageRefused, store: Store) -> RequestRefused:
    """What the store refuses of a message, as a producer is told it."""
    limit = store.config.max_message_size
    return RequestRefused(
        "MESSAGE_ILLEGAL",
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {limit}B, msg properties length limit 32KB. ({refused})",
    )
