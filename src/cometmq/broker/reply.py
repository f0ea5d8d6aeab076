"""Request and reply: a consumer answers a message, and the broker pushes the answer to the client that asked.

    requester ── message ──> broker ──> consumer
    requester <─ push (326) ─ broker <── reply (324, 325)

The reply is stored too, in the cluster's reply topic, whether the push succeeds or not; the one who replies is told
how the push went.

Mirrors: ReplyMessageProcessor.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from cometmq.broker.acknowledgements import fixed_fields
from cometmq.broker.config import BrokerConfig
from cometmq.broker.core import Core
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.members import Members
from cometmq.broker.target_topics import TargetTopics, queue_id_of
from cometmq.clock import Clock
from cometmq.errors import PeerError, ProtocolError, RequestRefused, StoreError
from cometmq.model import properties
from cometmq.net.routes import Call, handles
from cometmq.wire.codes import ResponseCode
from cometmq.wire.message_id import offset_id
from cometmq.wire.record import host_text
from cometmq.wire.requests.send import PushReplyMessage, SendMessageReply, SendReplyMessage, SendReplyMessageV2

log = logging.getLogger("cometmq.broker")

PUSH_TIMEOUT_MS: Final = 10_000

AnyReply = SendReplyMessage | SendReplyMessageV2


def install(core: Core) -> None:
    """Let consumers answer messages."""
    targets = TargetTopics(core.config, core.topics)
    core.routes.add(Reply(core.config, targets, core.members, core.messages, core.store.store_host, core.clock))


class Reply:
    """Takes replies and brings them to who waits for them."""

    def __init__(
        self,
        config: BrokerConfig,
        targets: TargetTopics,
        members: Members,
        messages: InnerMessages,
        store_host: bytes,
        clock: Clock,
    ) -> None:
        self._targets = targets
        self._members = members
        self._messages = messages
        self._clock = clock
        self._store_enable = config.store_reply_message_enable
        self._store_host = store_host
        self._fixed_fields = fixed_fields(config)

    @handles(SendReplyMessage, SendReplyMessageV2)
    async def reply(self, request: AnyReply, call: Call) -> None:
        if not call.body:
            raise ProtocolError(f"the reply to {request.topic} has no body; send at least one byte")
        try:
            topic = self._targets.topic(request, call)
        except RequestRefused as refused:
            refused.fields = self._fixed_fields
            raise
        queue_id = queue_id_of(request, topic)
        found = properties.parse(request.properties or "") | self._fixed_fields
        fault = await self._push(request, found, call)
        answer = SendMessageReply("0", queue_id, 0) if fault is None else None
        if self._store_enable:
            answer = await self._store(request, queue_id, found, call) or answer
        code = ResponseCode.SUCCESS if fault is None else ResponseCode.SYSTEM_ERROR
        call.reply(answer, code=code, remark=fault, ext=self._fixed_fields)

    async def _push(self, request: AnyReply, found: Mapping[str, str], call: Call) -> str | None:
        """Bring the reply to who asked; says what went wrong."""
        client_id = found.get(properties.REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{properties.REPLY_TO_CLIENT}] is null"
        channel = self._members.producer_channel(client_id)
        if channel is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = self._clock.now_ms()
        push = PushReplyMessage(
            producer_group=request.producer_group,
            topic=request.topic,
            default_topic=request.default_topic,
            default_topic_queue_nums=request.default_topic_queue_nums,
            queue_id=request.queue_id,
            sys_flag=request.sys_flag,
            born_timestamp=request.born_timestamp,
            flag=request.flag,
            properties=properties.render({**found, properties.PUSH_REPLY_TIME: str(now_ms)}),
            reconsume_times=request.reconsume_times,
            unit_mode=request.unit_mode,
            born_host=call.channel.peer,
            store_host=host_text(self._store_host),
            store_timestamp=now_ms,
        )
        try:
            answer = await channel.exchange(push.command(call.body), timeout_ms=PUSH_TIMEOUT_MS)
        except PeerError as lost:
            log.warning("the reply for %s did not reach it: %s", client_id, lost)
            return f"push reply message to {client_id}fail."
        return None if answer.code == ResponseCode.SUCCESS else f"push reply message to {client_id}fail."

    async def _store(
        self, request: AnyReply, queue_id: int, found: dict[str, str], call: Call
    ) -> SendMessageReply | None:
        """Keep the reply; one that cannot be kept was still pushed, so nobody is refused."""
        message = InnerMessage(
            topic=request.topic,
            queue_id=queue_id,
            body=call.body,
            properties=found,
            flag=request.flag,
            born_time_ms=request.born_timestamp,
            born_host=call.channel.peer_host,
            reconsume_times=request.reconsume_times,
        )
        try:
            placed = await self._messages.put_safely(message)
        except (StoreError, RequestRefused) as fault:
            log.warning("a reply in %s was not stored: %s", request.topic, fault)
            return None
        return SendMessageReply(offset_id(self._store_host, placed.physical_offset), queue_id, placed.queue_offset)
