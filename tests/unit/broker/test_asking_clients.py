"""Questions of operators to consumers that do not answer, or not well."""

from __future__ import annotations

import pytest

from cometmq.broker import asking_clients
from cometmq.errors import PeerRefused
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.testing.local_cluster import LocalCluster
from cometmq.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import FLAG_RESPONSE, Command, encode_command
from cometmq.wire.requests.clients import GetConsumerRunningInfo
from cometmq.wire.requests.members import HeartBeat


async def asked(member: object) -> Command:
    """What an operator is told of a consumer that does this with a request."""
    async with LocalCluster() as cluster:
        address = cluster.broker.address
        consumer, operator = await connect(address, on_request=member), await connect(address)  # type: ignore[arg-type]
        try:
            await consumer.call(HeartBeat(), HeartbeatData("c", [], [ConsumerData("g")]).encode())
            return await operator.exchange(GetConsumerRunningInfo("g", "c", False).command())
        finally:
            consumer.close()
            operator.close()


async def test_its_refusal_is_handed_on() -> None:
    def refuse(channel: Channel, command: Command) -> None:
        if command.code == GetConsumerRunningInfo.code:
            answer = Command(1, opaque=command.opaque, flag=FLAG_RESPONSE, remark="not now", ext={"a": "b"}, body=b"x")
            channel.send(encode_command(answer))

    answer = await asked(refuse)
    assert (answer.code, answer.remark, answer.ext["a"], bytes(answer.body)) == (1, "not now", "b", b"x")


async def test_it_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_clients, "TIMEOUT_MS", 50)
    answer = await asked(lambda channel, command: None)
    assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert "<g> <c> Timeout" in str(answer.remark)


async def test_it_goes_away() -> None:
    def leave(channel: Channel, command: Command) -> None:
        if command.code == GetConsumerRunningInfo.code:
            channel.close()

    answer = await asked(leave)
    assert (answer.code, "Exception" in str(answer.remark)) == (ResponseCode.SYSTEM_ERROR, True)


async def test_nobody_of_that_name() -> None:
    async with LocalCluster() as cluster:
        operator = await connect(cluster.broker.address)
        with pytest.raises(PeerRefused, match="not online"):
            await operator.call(GetConsumerRunningInfo("g", "c"))
        operator.close()
