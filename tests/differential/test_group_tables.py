"""What groups have set and hold passes from one broker to the other and back: modes, forbidden topics, order locks."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.original import BrokerProcess, CometNamesrv

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import CreateGroup, CreateTopic, UpdateGroupForbidden
from cometmq.wire.requests.members import GetAllMessageRequestMode, SetMessageRequestMode
from cometmq.wire.requests.pop import PopMessage
from cometmq.wire.requests.send import SendMessageV2

from .exchange import broker_of

pytestmark = pytest.mark.timeout(300)

HELD_MS = 600_000
WAIT_S = 60


async def popped(channel: Channel, attempt: str) -> list[bytes]:
    """What an ordered pop by some attempt gets now."""
    now_ms = int(time.time() * 1000)
    request = PopMessage("g", "t", 0, 2, HELD_MS, 0, now_ms, 0, "TAG", "*", True, attempt)
    answer = await channel.exchange(request.command(), timeout_ms=20_000)
    if answer.code != ResponseCode.SUCCESS:
        return []
    return [bytes(record.body) for record in decode_records(answer.body)]


async def make(channel: Channel) -> None:
    await channel.call(CreateTopic("t", 1, 1, 6, "SINGLE_TAG", "TBW102", 0))
    for group in (b"g", b"h"):
        await channel.call(CreateGroup(), b'{"groupName":"%b","consumeMessageOrderly":true}' % group)
    for number in range(3):
        await channel.call(SendMessageV2("p", "t", "TBW102", 1, 0, 0, 1, 0, ""), b"%d" % number, timeout_ms=10_000)


async def take(channel: Channel) -> None:
    """Pop in order until there is something, which the broker has to dispatch first."""
    deadline = time.monotonic() + WAIT_S
    while await popped(channel, "one") != [b"0", b"1"]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def set_group(channel: Channel, group: str) -> None:
    mode = b'{"topic":"t","consumerGroup":"%b","mode":"POP","popShareQueueNum":2}' % group.encode()
    await channel.call(SetMessageRequestMode(), mode, timeout_ms=10_000)
    await channel.call(UpdateGroupForbidden(group, "t", False), timeout_ms=10_000)


async def check(channel: Channel, *groups: str) -> None:
    modes = fastjson.loads((await channel.call(GetAllMessageRequestMode(), timeout_ms=10_000)).body)
    assert modes == {
        "messageRequestModeMap": {
            "t": {g: {"consumerGroup": g, "mode": "POP", "popShareQueueNum": 2, "topic": "t"} for g in groups}
        }
    }
    for group in groups:
        shown = fastjson.loads((await channel.call(UpdateGroupForbidden(group, "t"), timeout_ms=10_000)).body)
        assert shown["readable"] is False
    assert await popped(channel, "two") == []  # another attempt must wait for the one that holds the queue


async def saved(store: Path, pop_time_after_ms: int) -> None:
    """Until the broker has written down a pop that is newer."""
    table = store / "config" / "consumerOrderInfo.json"
    deadline = time.monotonic() + WAIT_S
    while True:
        if table.exists() and table.stat().st_size:
            queues = fastjson.loads(table.read_bytes())["table"].get("t@g") or {}
            if any(info["popTime"] >= pop_time_after_ms for info in queues.values()):
                return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def first_turn(broker: BrokerProcess, store: Path) -> None:
    channel = await connect(broker.addr)
    start_ms = int(time.time() * 1000)
    await make(channel)
    await set_group(channel, "g")
    await take(channel)
    await saved(store, start_ms)
    channel.close()


async def second_turn(broker: BrokerProcess, store: Path) -> None:
    channel = await connect(broker.addr)
    await check(channel, "g")
    await set_group(channel, "h")
    start_ms = int(time.time() * 1000)
    await take(channel)  # the attempt that holds the queue may ask again
    await saved(store, start_ms)
    channel.close()


async def third_turn(broker: BrokerProcess) -> None:
    channel = await connect(broker.addr)
    await check(channel, "g", "h")
    await take(channel)
    channel.close()


def test_tables_of_groups_pass_to_the_original_and_back(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with CometNamesrv(tmp_path / "namesrv") as namesrv:
        comet, java = (broker_of(kind, tmp_path, store, [namesrv.addr]) for kind in ("comet", "java"))
        with comet as broker:
            asyncio.run(first_turn(broker, store))
            broker.kill()
        with java as broker:
            asyncio.run(second_turn(broker, store))
            broker.kill()
        with comet as broker:
            asyncio.run(third_turn(broker))
