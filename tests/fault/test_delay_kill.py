"""A broker process is killed again and again while it delivers: every delayed message arrives once, none early."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.send import SendMessageV2

from .harness.warm import WarmBroker

COUNT, KILLS = 3_000, 3
LEVELS_MS = (1_000, 2_000)
TOPIC, GROUP = "orders", "readers"

pytestmark = pytest.mark.timeout(120)


async def send_all(channel: Channel) -> None:
    async def send(number: int) -> None:
        text = f"UNIQ_KEY\x01m{number}\x02DELAY\x01{number % len(LEVELS_MS) + 1}\x02"
        request = SendMessageV2(GROUP, TOPIC, "TBW102", 4, 0, 0, 0, 0, properties=text)
        await channel.call(request, b"later", timeout_ms=30_000)

    await asyncio.gather(*map(send, range(COUNT)))


async def end_of(channel: Channel, topic: str, queue_id: int) -> int:
    return int((await channel.call(GetMaxOffset(topic, queue_id), timeout_ms=30_000)).ext["offset"])


async def await_delivered(channel: Channel, count: int) -> None:
    async with asyncio.timeout(60):
        while await end_of(channel, TOPIC, 0) < count:  # noqa: ASYNC110 (another process has no event to wait for)
            await asyncio.sleep(0.002)


async def read_all(channel: Channel, topic: str, queue_id: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < await end_of(channel, topic, queue_id):
        request = PullMessage(GROUP, topic, queue_id, len(found), 32, 4, 0, 0, 0, subscription="*")
        found += decode_records(bytes((await channel.call(request, timeout_ms=30_000)).body), check_crc=True)
    return found


@pytest.mark.parametrize(("flush", "saved_every_ms"), [("SYNC_FLUSH", 60_000), ("ASYNC_FLUSH", 10)])
async def test_kills_while_messages_are_delivered(tmp_path: Path, flush: str, saved_every_ms: int) -> None:
    conf = {"messageDelayLevel": "1s 2s", "flushDelayOffsetInterval": saved_every_ms}
    with WarmBroker(tmp_path, [], flush=flush, conf=conf) as broker:
        channel = await connect(broker.addr)
        await send_all(channel)
        for kill in range(1, KILLS + 1):
            await await_delivered(channel, COUNT * kill // (KILLS + 2))
            channel.close()
            broker.kill()
            broker.start()
            channel = await connect(broker.addr)
        await await_delivered(channel, COUNT)
        waited = {
            record.properties["UNIQ_KEY"]: record
            for queue_id in range(len(LEVELS_MS))
            for record in await read_all(channel, "SCHEDULE_TOPIC_XXXX", queue_id)
        }
        delivered = await read_all(channel, TOPIC, 0)
        channel.close()
    assert Counter(record.properties["UNIQ_KEY"] for record in delivered) == Counter(waited.keys())
    for record in delivered:
        before = waited[record.properties["UNIQ_KEY"]]
        assert record.store_time_ms >= before.store_time_ms + LEVELS_MS[before.queue_id]
