"""Sending: what a producer's request says is checked here; `intake.py` and `batch_intake.py` take the messages in.

The order is Java's: check the name, find or make the topic, check the queue, then append. A refusal leaves
nothing behind. The answer carries where the message stands, and leaves when it is as safe as the flush mode says.

Mirrors: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from operator import itemgetter
from typing import Final, Literal

from cometmq.broker.admission import Admission
from cometmq.broker.batch_intake import BatchIntake
from cometmq.broker.inner_batches import INNER_BATCH, WRAPPED_HERE, becomes_one, count_messages, given_count
from cometmq.broker.intake import Destination, Intake
from cometmq.broker.retry.dead_letters import DeadLetters
from cometmq.broker.sent_properties import SentProperties
from cometmq.broker.target_topics import AnySend, TargetTopics, queue_id_of
from cometmq.broker.topics import Topics
from cometmq.errors import ProtocolError, RequestRefused
from cometmq.model import names, properties
from cometmq.model.sysflag import TRANSACTION_MASK, MessageFlag
from cometmq.model.topic import TopicConfig
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.wire.requests.send import SendBatchMessage, SendMessage, SendMessageV2

_MULTI_TAG: Final = "MULTI_TAG"

DESTINATIONS_MAX: Final = 10_000

Answer = Later | Coroutine[None, None, None]  # what is left to do is awaited

# Of a V2 header: what repeats from send to send, how many fields a plain one has, and digits that surely fit a long.
_REPEATED: Final = itemgetter(*"abcdefhjkmn")
_PLAIN_FIELDS: Final = 13
_SURE_DIGITS: Final = 18
_UNUSUAL_FLAGS: Final = INNER_BATCH | TRANSACTION_MASK
_SEND_CODES: Final = (SendMessageV2.code, SendBatchMessage.code)


class Send:
    """Takes messages from producers."""

    def __init__(
        self,
        topics: Topics,
        targets: TargetTopics,
        admission: Admission,
        intake: Intake,
        batches: BatchIntake,
        sent: SentProperties,
        dead_letters: DeadLetters,
        fixed_fields: Mapping[str, str],
    ) -> None:
        self._topics = topics
        self._targets = targets
        self._admission = admission
        self._intake = intake
        self._batches = batches
        self._own_properties = sent.own
        self._dead_letters = dead_letters
        self._fixed_fields = fixed_fields
        self._destinations: dict[tuple[str, ...], Destination] = {}

    @handles(SendMessageV2, raw=True)
    def send_v2(self, ext: Mapping[str, str], call: Call) -> Answer:
        """A producer's sends to one queue differ in born time and properties only: the rest is checked once."""
        try:
            key = _REPEATED(ext)
            destination = self._destinations.get(key)
            born = ext["g"]
        except KeyError:
            return self.send(SendMessageV2.read(ext), call)
        if destination is None or len(ext) != _PLAIN_FIELDS or not born.isdecimal() or len(born) > _SURE_DIGITS:
            request = SendMessageV2.read(ext)
            answer = self.send(request, call)
            if not request.batch and request.queue_id >= 0:
                self._remember(key, request)
            return answer
        try:
            self._admission.check()
            self._intake.take(destination, int(born), ext.get("i", ""), call)
        except RequestRefused as refused:
            raise self._with_fields(refused) from None
        return LATER

    def _remember(self, key: tuple[str, ...], request: AnySend) -> None:
        topic = self._topics.get(request.topic)
        if topic is not None and not request.sys_flag & INNER_BATCH and not topic.name.startswith(names.RETRY_PREFIX):
            if len(self._destinations) >= DESTINATIONS_MAX:
                self._destinations.clear()
            self._destinations[key] = _destination(request, request.queue_id, topic)

    def plain_destination(self, call: Call) -> tuple[bool, Destination] | Literal[False] | None:
        """For `SendLane`: where a request goes that has nothing unusual, and whether it is a batch.

        None if it would be refused as things are, or makes its topic; False if its header alone takes it elsewhere.
        """
        ext, command = call.command.ext, call.command
        if command.code not in _SEND_CODES or command.flag or len(ext) != _PLAIN_FIELDS or "i" not in ext:
            return False
        request = SendMessageV2.read(ext)
        if request.queue_id < 0 or request.sys_flag & _UNUSUAL_FLAGS or request.topic.startswith(names.RETRY_PREFIX):
            return False
        topic = self._topics.get(request.topic)
        if topic is None or topic.is_batch or self._targets.topic(request, call) is not topic:
            return None
        return request.batch, _destination(request, request.queue_id, topic)

    def forget(self) -> None:
        """A topic has changed: what was checked before may be wrong now."""
        self._destinations.clear()

    @handles(SendMessage, SendBatchMessage)
    def send(self, request: AnySend, call: Call) -> Answer:
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
            self._send_retry(request, destination, call)
        elif destination.sys_flag & INNER_BATCH:
            _, found = self._intake.complete(request.properties or "")
            found.update(self._own_properties)
            self._batches.take_whole(destination, request.born_timestamp, found, given_count(found), call)
        else:
            self._intake.take(destination, request.born_timestamp, request.properties or "", call)
        return LATER

    def _send_retry(self, request: AnySend, destination: Destination, call: Call) -> None:
        """A consumer that could not send a message back (36) sends it again itself, or has tried it often enough."""
        dead = self._dead_letters.place_of_retry(
            request.topic, request.reconsume_times, request.max_reconsume_times, call.command.version
        )
        if dead is None:
            self._intake.take(destination, request.born_timestamp, request.properties or "", call)
            return
        if not call.command.body:
            raise ProtocolError(f"the message to {dead[0]} has no body; send at least one byte")
        _, found = self._intake.complete(request.properties or "")
        found[properties.DELAY] = "-1"
        self._intake.take_special(destination, request.born_timestamp, found, call, dead)

    def _send_batch(self, request: AnySend, call: Call) -> Answer:
        self._admission.check()
        topic = self._targets.topic(request, call)
        if request.topic.startswith(names.RETRY_PREFIX):
            raise RequestRefused("MESSAGE_ILLEGAL", f"batch request does not support retry group {request.topic}")
        queue_id = queue_id_of(request, topic)
        outer = properties.parse(request.properties or "")
        if becomes_one(topic, outer):
            destination = _destination(request, queue_id, topic, WRAPPED_HERE)
            count = count_messages(call.command.body)
            found = {**outer, **self._own_properties, properties.INNER_NUM: str(count)}
            self._batches.take_whole(destination, request.born_timestamp, found, count, call)
            return LATER
        rest = self._batches.take(_destination(request, queue_id, topic), request.born_timestamp, outer, call)
        return LATER if rest is None else self._finish(rest)

    async def _finish(self, rest: Coroutine[None, None, None]) -> None:
        try:
            await rest
        except RequestRefused as refused:
            raise self._with_fields(refused) from None


def _destination(request: AnySend, queue_id: int, topic: TopicConfig, more_flags: int = 0) -> Destination:
    sys_flag = request.sys_flag | more_flags
    if topic.filter_type == _MULTI_TAG:
        sys_flag |= MessageFlag.MULTI_TAGS
    return Destination(request.topic, queue_id, request.flag, sys_flag, request.reconsume_times)
