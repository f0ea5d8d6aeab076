"""A broker process is killed again and again while messages become due: each is delivered once, none early."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.send import SendMessageV2

from .harness.warm import WarmBroker

COUNT, KILLS, SPREAD_MS = 2_000, 3, 2_000
TOPIC, GROUP = "orders", "readers"

pytestmark = pytest.mark.timeout(120)


async def send_all(channel: Channel, due_ms: dict[str, int]) -> None:
    async def send(name: str, at_ms: int) -> None:
        text = f"UNIQ_KEY\x01{name}\x02TIMER_DELIVER_MS\x01{at_ms}\x02"
        request = SendMessageV2(GROUP, TOPIC, "TBW102", 4, 0, 0, 0, 0, properties=text)
        await channel.call(request, name.encode(), timeout_ms=30_000)

    await asyncio.gather(*(send(name, at_ms) for name, at_ms in due_ms.items()))


async def visible(channel: Channel) -> int:
    return int((await channel.call(GetMaxOffset(TOPIC, 0), timeout_ms=30_000)).ext["offset"])


async def await_visible(channel: Channel, count: int) -> None:
    async with asyncio.timeout(60):
        while await visible(channel) < count:  # noqa: ASYNC110 (another process has no event)
            await asyncio.sleep(0.005)


async def read_all(channel: Channel) -> list[Record]:
    found: list[Record] = []
    while len(found) < await visible(channel):
        request = PullMessage(GROUP, TOPIC, 0, len(found), 32, 4, 0, 0, 0, subscription="*")
        found += decode_records(bytes((await channel.call(request, timeout_ms=30_000)).body), check_crc=True)
    return found


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_kills_while_messages_become_due(tmp_path: Path, flush: str) -> None:
    with WarmBroker(tmp_path, [], flush=flush) as broker:
        channel = await connect(broker.addr)
        first_ms = int(time.time() * 1000) + 4_000
        due_ms = {f"m{n}": first_ms + n * SPREAD_MS // COUNT for n in range(COUNT)}
        await send_all(channel, due_ms)
        for kill in range(1, KILLS + 1):
            await await_visible(channel, COUNT * kill // (KILLS + 1))
            channel.close()
            broker.kill()
            broker.start()
            channel = await connect(broker.addr)
        await await_visible(channel, COUNT)
        found = await read_all(channel)
        channel.close()
        broker.kill()
    assert Counter(record.body.decode() for record in found) == Counter(list(due_ms))
    assert not {record.body: 1 for record in found if record.store_time_ms < due_ms[record.body.decode()]}
