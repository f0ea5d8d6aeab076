"""Sending: one message, or a batch of them.

The order is Java's: check the name, find or make the topic, check the queue, then append. A refusal leaves
nothing behind. The answer carries where the message stands, and leaves when it is as safe as the flush mode says.

Mirrors: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Final, NamedTuple

from cometmq.broker.acknowledgements import Acknowledgements, BatchReceipt, Receipt, TimedReceipt
from cometmq.broker.admission import Admission
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivered_marks import without_marks
from cometmq.broker.durability import Durability
from cometmq.broker.inner_batches import (
    INNER_BATCH,
    WRAPPED_HERE,
    becomes_one,
    check_marks,
    check_not_delayed,
    count_messages,
    given_count,
    refuse_stray_number,
)
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.retry.dead_letters import DeadLetters
from cometmq.broker.sent_properties import SentProperties, waits
from cometmq.broker.target_topics import AnySend, TargetTopics, queue_id_of
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.errors import MessageRefused, ProtocolError, RequestRefused
from cometmq.model import names, properties
from cometmq.model.priority import queue_of_priority
from cometmq.model.sysflag import MessageFlag
from cometmq.model.topic import TopicConfig
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.wire.batch import split_batch
from cometmq.wire.message_id import UniqueIds
from cometmq.wire.recall_handle import handle_of
from cometmq.wire.requests.send import SendBatchMessage, SendMessage, SendMessageV2

_MULTI_TAG: Final = "MULTI_TAG"

DESTINATIONS_MAX: Final = 10_000

# Of a V2 header: what repeats from send to send, how many fields a plain one has, and digits that surely fit a long.
_REPEATED: Final = itemgetter(*"abcdefhjkmn")
_PLAIN_FIELDS: Final = 13
_SURE_DIGITS: Final = 18


class Destination(NamedTuple):
    """What the header of a send comes to once it is checked."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    reconsume_times: int


class Send:
    """Takes messages from producers."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        targets: TargetTopics,
        store: Store,
        durability: Durability,
        admission: Admission,
        acknowledgements: Acknowledgements,
        messages: InnerMessages,
        unique_ids: UniqueIds,
        clock: Clock,
        dead_letters: DeadLetters,
    ) -> None:
        self._topics = topics
        self._dead_letters = dead_letters
        self._targets = targets
        self._store = store
        self._durability = durability
        self._admission = admission
        self._messages = messages
        self._special_keys = messages.special_keys
        self._special_keys.add(properties.PRIORITY)
        messages.add_stage(refuse_stray_number, properties.INNER_NUM)
        self._broker_ip = config.broker_ip1
        self._broker_name = config.broker_name
        self._transactions_refused = config.reject_transaction_message
        self._id_prefix = store.store_host.hex().upper()
        self._fixed_fields = acknowledgements.fixed_fields
        self._sent = SentProperties(
            {**self._fixed_fields, properties.CLUSTER: config.broker_cluster_name},
            messages.special_keys,
            lambda: unique_ids.make(clock.now_ms()),
        )
        self._destinations: dict[tuple[str, ...], Destination] = {}

    @handles(SendMessageV2, raw=True)
    def send_v2(self, ext: Mapping[str, str], call: Call) -> Later:
        """A producer's sends to one queue differ in born time and properties only: the rest is checked once."""
        try:
            key = _REPEATED(ext)
            destination = self._destinations.get(key)
            born = ext["g"]
        except KeyError:
            return self.send(SendMessageV2.read(ext), call)
        if destination is None or len(ext) != _PLAIN_FIELDS or not born.isdecimal() or len(born) > _SURE_DIGITS:
            request = SendMessageV2.read(ext)
            self.send(request, call)
            if not request.batch and request.queue_id >= 0:
                self._remember(key, request)
            return LATER
        try:
            self._admission.check()
            self._store_one(destination, int(born), ext.get("i", ""), call)
        except RequestRefused as refused:
            raise self._with_fields(refused) from None
        return LATER

    def _remember(self, key: tuple[str, ...], request: AnySend) -> None:
        topic = self._topics.get(request.topic)
        if topic is not None and not request.sys_flag & INNER_BATCH and not topic.name.startswith(names.RETRY_PREFIX):
            if len(self._destinations) >= DESTINATIONS_MAX:
                self._destinations.clear()
            self._destinations[key] = _destination(request, request.queue_id, topic)

    def forget(self) -> None:
        """A topic has changed: what was checked before may be wrong now."""
        self._destinations.clear()

    @handles(SendMessage, SendBatchMessage)
    def send(self, request: AnySend, call: Call) -> Later:
        try:
            # The header decides, not the code, as in the original.
            return self._send_batch(request, call) if request.batch else self._send_one(request, call)
        except RequestRefused as refused:
            raise self._with_fields(refused) from None

    def _with_fields(self, refused: RequestRefused) -> RequestRefused:
        if refused.response != "SYSTEM_ERROR":
            refused.fields = {**(refused.fields or {}), **self._fixed_fields}
        return refused

    def _send_one(self, request: AnySend, call: Call) -> Later:
        self._admission.check()
        topic = self._targets.topic(request, call)
        queue_id = queue_id_of(request, topic)
        destination = _destination(request, queue_id, topic)
        if request.topic.startswith(names.RETRY_PREFIX):
            self._store_retry(request, destination, call)
        elif destination.sys_flag & INNER_BATCH:
            _, found = self._complete(request.properties or "")
            found.update(self._sent.own)
            self._store_inner_batch(destination, request.born_timestamp, found, given_count(found), call)
        else:
            self._store_one(destination, request.born_timestamp, request.properties or "", call)
        return LATER

    def _store_one(self, destination: Destination, born_time_ms: int, given: str, call: Call) -> None:
        topic, queue_id, flag, sys_flag, reconsume_times = destination
        if not call.command.body:
            raise ProtocolError(f"the message to {topic} has no body; send at least one byte")
        sent = self._sent.read(given)
        if sent is not None and sent[1].plain:
            uniq_key, (tags, keys, waiting, _) = sent
            text = given + self._sent.own_text
        else:
            text, found = self._complete(given)
            uniq_key, tags, keys = found[properties.UNIQ_KEY], found.get(properties.TAGS), found.get(properties.KEYS)
            waiting = waits(found)
            if not found.keys().isdisjoint(self._special_keys):
                self._store_special(destination, born_time_ms, found, call)
                return
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
            raise self._illegal(refused) from None
        receipt = Receipt(f"{self._id_prefix}{at:016X}", queue_id, queue_offset, uniq_key)
        self._durability.answer_when_safe(at + size, call, receipt, sync=waiting)

    def _store_retry(self, request: AnySend, destination: Destination, call: Call) -> None:
        """A consumer that could not send a message back (36) sends it again itself, or has tried it often enough."""
        dead = self._dead_letters.place_of_retry(
            request.topic, request.reconsume_times, request.max_reconsume_times, call.command.version
        )
        if dead is None:
            self._store_one(destination, request.born_timestamp, request.properties or "", call)
            return
        if not call.command.body:
            raise ProtocolError(f"the message to {dead[0]} has no body; send at least one byte")
        _, found = self._complete(request.properties or "")
        found[properties.DELAY] = "-1"
        self._store_special(destination, request.born_timestamp, found, call, dead)

    def _store_special(
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
        try:
            at, size, queue_offset, _ = self._messages.put(message, from_producer=True)
        except MessageRefused as refused:
            raise self._illegal(refused) from None
        msg_id = f"{self._id_prefix}{at:016X}"
        receipt = Receipt(msg_id, queue_id, queue_offset, uniq_key)
        recall_handle = handle_of(message.properties, self._broker_name)
        if recall_handle is not None:
            receipt = TimedReceipt(msg_id, queue_id, queue_offset, None, uniq_key, recall_handle)
        self._durability.answer_when_safe(at + size, call, receipt, sync=waiting)

    def _send_batch(self, request: AnySend, call: Call) -> Later:
        self._admission.check()
        topic = self._targets.topic(request, call)
        if request.topic.startswith(names.RETRY_PREFIX):
            raise RequestRefused("MESSAGE_ILLEGAL", f"batch request does not support retry group {request.topic}")
        queue_id = queue_id_of(request, topic)
        outer = properties.parse(request.properties or "")
        if becomes_one(topic, outer):
            destination = _destination(request, queue_id, topic, WRAPPED_HERE)
            count = count_messages(call.command.body)
            found = {**outer, **self._sent.own, properties.INNER_NUM: str(count)}
            self._store_inner_batch(destination, request.born_timestamp, found, count, call)
            return LATER
        limit = self._store.config.max_message_size
        if len(call.command.body) > limit:
            raise RequestRefused(
                "SYSTEM_ERROR", f"message body size exceeded: the batch has {len(call.command.body)} of {limit} bytes"
            )
        messages = without_marks(split_batch(call.command.body), call.command.body)
        try:
            check_marks(request.sys_flag, outer)
            offsets, queue_offset, end = self._store.append_batch(
                request.topic,
                queue_id,
                self._sent.of_batch(messages),
                _with_tag_kind(request.sys_flag, topic),
                request.born_timestamp,
                call.channel.peer_host,
                request.reconsume_times,
            )
        except MessageRefused as refused:
            raise self._illegal(refused) from None
        ids = (f"{self._id_prefix}%016X," * len(offsets))[:-1] % tuple(offsets)
        receipt = Receipt(ids, queue_id, queue_offset, outer.get(properties.UNIQ_KEY))
        self._durability.answer_when_safe(end, call, receipt, sync=waits(outer))
        return LATER

    def _store_inner_batch(
        self, destination: Destination, born_time_ms: int, found: dict[str, str], count: int, call: Call
    ) -> None:
        topic, queue_id, flag, sys_flag, reconsume_times = destination
        found.pop(properties.DELIVERED_MARK, None)
        uniq_key = found[properties.UNIQ_KEY]
        wrapped = sys_flag & WRAPPED_HERE == WRAPPED_HERE
        if not call.command.body:
            raise ProtocolError(f"the message to {topic} has no body; send at least one byte")
        try:
            check_not_delayed(found)
            at, size, queue_offset, _ = self._store.append_inner_batch(
                topic,
                queue_id,
                call.command.body,
                found,
                count,
                sys_flag,
                flag=flag,
                born_time_ms=born_time_ms,
                born_host=call.channel.peer_host,
                reconsume_times=reconsume_times,
            )
        except MessageRefused as refused:
            illegal = self._illegal(refused)
            illegal.fields = {"batchUniqId": uniq_key} if wrapped else None
            raise illegal from None
        message_id = f"{self._id_prefix}{at:016X}"
        receipt = Receipt(message_id, queue_id, queue_offset, uniq_key)
        if wrapped:
            receipt = BatchReceipt(message_id, queue_id, queue_offset, None)
            receipt.uniq_key = uniq_key
        self._durability.answer_when_safe(at + size, call, receipt, sync=waits(found))

    # --- checks

    def _complete(self, given: str) -> tuple[str, dict[str, str]]:
        """The properties as they are stored, as text and as pairs."""
        text, found = self._sent.complete(given)
        if self._transactions_refused and found.get(properties.TRANSACTION_PREPARED, "").lower() == "true":
            raise RequestRefused(
                "NO_PERMISSION", f"the broker[{self._broker_ip}] sending transaction message is forbidden"
            )
        return text, found

    def _illegal(self, refused: MessageRefused) -> RequestRefused:
        limit = self._store.config.max_message_size
        return RequestRefused(
            "MESSAGE_ILLEGAL",
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {limit}B, msg properties length limit 32KB. ({refused})",
        )


def _destination(request: AnySend, queue_id: int, topic: TopicConfig, more_flags: int = 0) -> Destination:
    sys_flag = _with_tag_kind(request.sys_flag, topic) | more_flags
    return Destination(request.topic, queue_id, request.flag, sys_flag, request.reconsume_times)


def _with_tag_kind(sys_flag: int, topic: TopicConfig) -> int:
    return sys_flag | MessageFlag.MULTI_TAGS if topic.filter_type == _MULTI_TAG else sys_flag
