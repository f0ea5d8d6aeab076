"""Requests whose fields and bodies hold anything: answered, or refused in words; never an error that nobody foresaw."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import fields
from pathlib import Path

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.test_send_and_pull import pulled, send

from cometmq.errors import PeerTimeout
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import SerializeType
from cometmq.wire.command import Command
from cometmq.wire.schema import REQUESTS, Header, wire_name

EACH = 40
PATIENCE_MS = 100  # some wait for messages, and END_TRANSACTION of no known kind is not answered, here as upstream
WHOLE = ["-9223372036854775808", "-2147483648", "-1", "0", "1", "3", "7", "2147483647", "9223372036854775807", "x", ""]
TEXTS = [
    *("", "..", "\0", "é", "x" * 300, "*", "a > 1", "SQL92", "{", "1", "0 1 2 3 4 5 6 7", "orders", "g", "broker-a"),
    *("TBW102", "SCHEDULE_TOPIC_XXXX", "%RETRY%g", "%DLQ%g", "%LMQ%a", "UPPER", "+queue.type=BatchCQ", "+a=b,-c"),
    *(
        "KEYS\1k\2",
        "DELAY\0015\2",
        "TIMER_DELAY_SEC\00199999999999999\2",
        "TRAN_MSG\1true\2PGROUP\1g\2",
        "INNER_NUM\1-3\2",
    ),
]
BODIES = [
    *(b"", b"x", b"{}", b"[]", b"null", b"{", b"\xff", b"[" * 5_000, b"\0\0\0\x20" + bytes(28), b"a=b\n\\"),
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[null]}]}',
    b'{"topicConfigList":[null,{}],"groupConfigList":[{"groupName":null}],"mqSet":[{}],"groupName":[]}',
]


def hostile(request: type[Header], choice: random.Random) -> Command:
    ext = {}
    for item in fields(request):  # type: ignore[arg-type]
        if choice.random() < 0.9:
            values = TEXTS if "str" in str(item.type) else WHOLE
            ext[item.metadata.get("wire") or wire_name(item.name)] = choice.choice(values)
    form = choice.choice([SerializeType.JSON, SerializeType.ROCKETMQ])
    return Command(request.code, ext=ext, body=choice.choice(BODIES), serialize=form)


async def ask(channel: Channel, command: Command) -> None:
    try:
        answer = await channel.exchange(command, timeout_ms=PATIENCE_MS)
    except PeerTimeout:
        return
    assert answer.code == 0 or answer.remark, command


async def ask_everything(channel: Channel, codes: set[int], seed: int) -> None:
    choice = random.Random(seed)
    for code in sorted(codes):
        await asyncio.gather(*(ask(channel, hostile(REQUESTS[code], choice)) for _ in range(EACH)))


def unforeseen(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info or record.levelno > logging.ERROR]


@pytest.mark.parametrize("seed", range(2))
async def test_a_broker_is_asked_anything(broker: StartBroker, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    settings = {"flushDiskType": "ASYNC_FLUSH", "enablePropertyFilter": "true", "recallMessageEnable": "true"}
    async with broker(**settings) as (running, channel):
        await channel.call(send(topic="kept"), b"x")
        await ask_everything(channel, running.codes, seed)
        assert [bytes(record.body) for record in await pulled(channel, topic="kept")] == [b"x"]
    assert not unforeseen(caplog)


async def test_a_name_server_is_asked_anything(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = {"kv_config_path": str(tmp_path / "kv.json"), "config_store_path": str(tmp_path / "namesrv.conf")}
    server = NameServer(NamesrvConfig(listen_port=0, **paths))
    await server.start()
    channel = await connect(server.address)
    try:
        await ask_everything(channel, server._routes.codes, seed=0)
    finally:
        channel.close()
        await server.stop()
    assert not unforeseen(caplog)
