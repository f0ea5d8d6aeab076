"""What operators ask of a consumer through the broker: how it runs (307), and to take a message at once (309).

    operator ── 307, 309 ──> broker ── the same ──> consumer
    operator <── its answer ─ broker <── answer ── consumer

The fields go on as they came; for 309 the broker adds its name, the flags of topic and group, and the record of the
message. What the consumer answers is answered, with its code and words.

Mirrors: AdminBrokerProcessor (getConsumerRunningInfo, consumeMessageDirectly, callConsumer).
"""

from __future__ import annotations

import asyncio
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.core import Core
from cometmq.broker.groups import Groups
from cometmq.broker.members import Members, Peer
from cometmq.broker.topics import Topics
from cometmq.errors import PeerError, PeerTimeout, ProtocolError, RequestRefused
from cometmq.net.routes import Call, handles
from cometmq.store.engine import Store
from cometmq.wire.command import Command
from cometmq.wire.message_id import parse_offset_id
from cometmq.wire.requests.clients import ConsumeMessageDirectly, GetConsumerRunningInfo

TIMEOUT_MS: Final = 10_000


def install(core: Core) -> None:
    """Let operators ask consumers."""
    core.routes.add(AskingClients(core.config, core.members, core.topics, core.groups, core.store))


class AskingClients:
    """Brings questions to consumers, and their answers back."""

    def __init__(self, config: BrokerConfig, members: Members, topics: Topics, groups: Groups, store: Store) -> None:
        self._broker_name = config.broker_name
        self._members = members
        self._topics = topics
        self._groups = groups
        self._store = store

    @handles(GetConsumerRunningInfo)
    async def running_info(self, request: GetConsumerRunningInfo, call: Call) -> None:
        await self._ask(request.consumer_group, request.client_id, call, dict(call.command.ext), bytes(call.body))

    @handles(ConsumeMessageDirectly)
    async def consume_directly(self, request: ConsumeMessageDirectly, call: Call) -> None:
        fields = {**call.command.ext, "brokerName": self._broker_name}
        topic = self._topics.get(request.topic) if request.topic else None
        if topic is not None:
            fields["topicSysFlag"] = str(topic.sys_flag)
        group = self._groups.find(request.consumer_group)
        if group is not None:
            fields["groupSysFlag"] = str(group.group_sys_flag)
        record = await self._record(request.msg_id)
        await self._ask(request.consumer_group, request.client_id, call, fields, record)

    async def _record(self, message_id: str | None) -> bytes:
        try:
            _, offset = parse_offset_id(message_id or "")
        except ProtocolError as fault:
            raise RequestRefused(
                "SYSTEM_ERROR", f"msgId must be the id that names a place in the log: {fault}"
            ) from None
        record = self._store.record_at(offset)
        if record is None:
            raise RequestRefused("SYSTEM_ERROR", f"there is no message {message_id} in this broker")
        return b"".join(await asyncio.to_thread(self._store.load, [(offset, len(record))]))

    async def _ask(self, group: str, client_id: str | None, call: Call, fields: dict[str, str], body: bytes) -> None:
        channel = self._channel(group, client_id)
        if channel is None:
            raise RequestRefused("SYSTEM_ERROR", f"The Consumer <{group}> <{client_id}> not online")
        who = f"consumer <{group}> <{client_id}>"
        try:
            answer = await channel.exchange(Command(call.command.code, ext=fields, body=body), timeout_ms=TIMEOUT_MS)
        except PeerTimeout as fault:
            raise RequestRefused("CONSUME_MSG_TIMEOUT", f"{who} Timeout: {fault}") from None
        except PeerError as fault:
            raise RequestRefused("SYSTEM_ERROR", f"invoke {who} Exception: {fault}") from None
        call.reply(code=answer.code, remark=answer.remark, body=answer.body, ext=answer.ext)

    def _channel(self, group: str, client_id: str | None) -> Peer | None:
        members = self._members.consumer_group(group)
        if members is None:
            return None
        return next((peer for peer, client in members.clients.items() if client.client_id == client_id), None)
