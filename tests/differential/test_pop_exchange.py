"""Messages handed out by one broker are brought back by the other that opens its folder, but for those acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.original import BrokerProcess, CometNamesrv

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.command import Command
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.consume import GetMaxOffset
from cometmq.wire.requests.pop import AckMessage, ChangeInvisibleTime, PopMessage
from cometmq.wire.requests.send import SendMessageV2

from .exchange import broker_of

pytestmark = pytest.mark.timeout(180)

TOPIC, GROUP = "handed", "handers"
OTHER = {"java": "comet", "comet": "java"}
INVISIBLE_MS = 3_000
AWAIT_S = 25.0


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with CometNamesrv(tmp_path_factory.mktemp("namesrv")) as running:
        yield [running.addr]


# The original stops for half a minute when it stops cleanly; test_store_exchange waits for that.
@pytest.mark.parametrize(("first", "end"), [("java", "kill"), ("comet", "kill"), ("comet", "clean")])
def test_what_one_handed_out_the_other_brings_back(first: str, end: str, tmp_path: Path, namesrv: list[str]) -> None:
    store = tmp_path / "store"
    with broker_of(first, tmp_path, store, namesrv) as broker:
        asyncio.run(hand_out(broker))
        await_saved(store)
        if end == "clean":
            broker.stop()
        broker.kill()
    with broker_of(OTHER[first], tmp_path, store, namesrv) as broker:
        assert asyncio.run(all_that_comes(broker, 4)) == {
            b"open 1": 1,  # times it was given back
            b"open 2": 1,
            b"more time": 1,
            b"never popped": 0,
        }
        broker.kill()


async def hand_out(broker: BrokerProcess) -> None:
    """Pop four of five messages; one of them is acknowledged, of one the time is changed."""
    channel = await connect(broker.addr)
    create = CreateTopic(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    await channel.call(create, timeout_ms=10_000)
    for body in (b"done", b"open 1", b"open 2", b"more time", b"never popped"):
        send = SendMessageV2(
            "producers", TOPIC, "TBW102", 1, 0, 0, int(time.time() * 1000), 0, properties="TAGS\x01a\x02"
        )
        await channel.call(send, body, timeout_ms=10_000)
    async with asyncio.timeout(AWAIT_S):
        while int((await channel.call(GetMaxOffset(TOPIC, 0))).ext["offset"]) < 5:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.02)
    reply = await pop(channel, count=4)
    assert next(decode_records(bytes(reply.body))).body == b"done"
    receipt = f"0 {reply.ext['popTime']} {INVISIBLE_MS} {reply.ext['reviveQid']} 0 broker-a 0 "
    await channel.call(AckMessage(TOPIC, GROUP, 0, receipt + "0", 0), timeout_ms=10_000)
    more_time = ChangeInvisibleTime(TOPIC, GROUP, 0, receipt + "3", 3, invisible_time=INVISIBLE_MS + 500)
    await channel.call(more_time, timeout_ms=10_000)
    channel.close()


async def pop(channel: Channel, count: int) -> Command:
    request = PopMessage(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=0,
        max_msg_nums=count,
        invisible_time=INVISIBLE_MS if count == 4 else 60_000,
        poll_time=0,
        born_time=0,
        init_mode=0,
    )
    return await channel.exchange(request.command(), timeout_ms=10_000)


def await_saved(store: Path) -> None:
    """Wait until the group's offset is on disk, and with it the timer's progress: only then may it be killed."""
    deadline = time.monotonic() + AWAIT_S
    while True:
        try:
            saved = fastjson.loads((store / "config" / "consumerOffset.json").read_bytes())
        except OSError:
            saved = {}
        if saved.get("offsetTable", {}).get(f"{TOPIC}@{GROUP}") == {"0": 4}:
            return
        assert time.monotonic() < deadline, f"the offset was not saved: {saved}"
        time.sleep(0.05)


async def all_that_comes(broker: BrokerProcess, count: int) -> dict[bytes, int]:
    """Pop until so many messages have come, and a little longer."""
    channel = await connect(broker.addr)
    found: dict[bytes, int] = {}
    deadline = time.monotonic() + AWAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found |= await popped(channel)
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)  # for what should not come
    found |= await popped(channel)
    channel.close()
    return found


async def popped(channel: Channel) -> dict[bytes, int]:
    reply = await pop(channel, count=32)
    return {record.body: record.reconsume_times for record in decode_records(bytes(reply.body))}
