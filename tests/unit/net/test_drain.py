"""A server that is about to stop: clients that understand GO_AWAY get it, the others are served to the end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cometmq.broker.app import Broker, load_settings
from cometmq.errors import PeerUnreachable
from cometmq.namesrv.app import NameServer, load
from cometmq.net.pool import connect
from cometmq.net.routes import send_away
from cometmq.wire.codes import FLAG_ONE_WAY, RequestCode, ResponseCode, SerializeType
from cometmq.wire.command import Command
from cometmq.wire.requests.consume import GetMaxOffset

from .support import UNKNOWN_CODE, serving

V5_3_1, V5_3_2 = 475, 476  # as MQVersion counts them


def ask(version: int, code: int | None = None) -> Command:
    command = GetMaxOffset("T", 7).command()
    command.version = version
    command.code = command.code if code is None else code
    return command


async def draining(stack: AsyncExitStack) -> str:
    running = await stack.enter_async_context(serving())
    await running.server.drain(send_away, 0)
    return running.address


@pytest.mark.parametrize("form", list(SerializeType))
async def test_who_understands_is_sent_away(form: SerializeType) -> None:
    async with AsyncExitStack() as stack:
        channel = await connect(await draining(stack))
        command = ask(V5_3_2)
        command.serialize = form
        answer = await channel.exchange(command)
        assert (answer.code, answer.remark, answer.ext) == (ResponseCode.GO_AWAY, "please go away", {})


async def test_an_unknown_code_is_sent_away_too() -> None:
    async with AsyncExitStack() as stack:
        channel = await connect(await draining(stack))
        assert (await channel.exchange(ask(V5_3_2, UNKNOWN_CODE))).code == ResponseCode.GO_AWAY
        assert (await channel.exchange(ask(V5_3_1, UNKNOWN_CODE))).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("version", [0, 409, V5_3_1])
async def test_older_clients_are_served(version: int) -> None:
    async with AsyncExitStack() as stack:
        channel = await connect(await draining(stack))
        answer = await channel.exchange(ask(version))
        assert (answer.code, answer.ext["offset"]) == (ResponseCode.SUCCESS, "7")


async def test_a_connection_from_before_is_sent_away_and_told_so_once() -> None:
    async with serving() as running:
        channel = await connect(running.address)
        assert (await channel.exchange(ask(V5_3_2))).code == ResponseCode.SUCCESS
        await running.server.drain(send_away, 0)
        one_way = ask(V5_3_2)
        one_way.flag |= FLAG_ONE_WAY
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(channel.exchange(one_way, timeout_ms=1_000), 0.05)
        assert (await channel.exchange(ask(V5_3_2))).code == ResponseCode.GO_AWAY
        assert running.answers.seen and len(running.answers.seen) == 1


async def test_a_broker_sends_away_while_it_stops(tmp_path: Path) -> None:
    keys = {
        "storePathRootDir": str(tmp_path),
        "listenPort": "0",
        "mappedFileSizeCommitLog": str(1 << 20),
        "enableShutdownGracefully": "true",
        "shutdownWaitTimeSeconds": "1",
    }
    broker = Broker(load_settings(keys))
    await broker.start()
    await _stops_politely(broker, broker.address)


async def test_a_name_server_sends_away_while_it_stops(tmp_path: Path) -> None:
    server = load(
        {
            "listenPort": "0",
            "kvConfigPath": str(tmp_path / "kv.json"),
            "enableShutdownGracefully": "true",
            "shutdownWaitTimeSeconds": "1",
        }
    )
    await server.start()
    await _stops_politely(server, server.address)


async def _stops_politely(server: Broker | NameServer, address: str) -> None:
    channel = await connect(address)
    stopping = asyncio.create_task(server.stop())
    question = ask(V5_3_2, RequestCode.GET_ROUTEINFO_BY_TOPIC)
    while (await channel.exchange(question)).code != ResponseCode.GO_AWAY:
        question = ask(V5_3_2, RequestCode.GET_ROUTEINFO_BY_TOPIC)
    late = await connect(address)  # who comes now is told as well
    assert (await late.exchange(ask(V5_3_2))).code == ResponseCode.GO_AWAY
    assert not stopping.done()
    await stopping
    with pytest.raises(PeerUnreachable):
        await channel.exchange(ask(V5_3_2))


async def test_by_default_nobody_waits(tmp_path: Path) -> None:
    server = load({"listenPort": "0", "kvConfigPath": str(tmp_path / "kv.json")})
    await server.start()
    async with asyncio.timeout(1):
        await server.stop()
