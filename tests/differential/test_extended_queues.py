"""A store of the original with `enableConsumeQueueExt`, where units hold addresses instead of hashes and times."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.original import CometNamesrv

from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.store.queue_extension import ADDRESS_MAX
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply, PullMessage
from cometmq.wire.requests.send import SendMessageV2

from .exchange import broker_of

pytestmark = pytest.mark.timeout(300)

COUNT = 30
LEVELS = "1s 1h"
TAGS = ("a", "b", "c")


async def send(channel: Channel, body: bytes, text: str) -> None:
    await channel.call(SendMessageV2("p", "orders", "TBW102", 1, 0, 0, 1, 0, text), body, timeout_ms=10_000)


async def visible(channel: Channel, topic: str, queue_id: int, count: int) -> None:
    async with asyncio.timeout(30):
        while OffsetReply.read((await channel.call(GetMaxOffset(topic, queue_id))).ext).offset < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def fill(address: str) -> None:
    channel = await connect(address)
    for number in range(COUNT):
        await send(channel, b"%d" % number, f"TAGS\x01{TAGS[number % 3]}\x02")
    await send(channel, b"in an hour", "DELAY\x012\x02")
    await visible(channel, "orders", 0, COUNT)
    await visible(channel, SCHEDULE_TOPIC, 1, 1)
    channel.close()


async def pulled(address: str, expression: str) -> list[bytes]:
    """What a consumer of these tags is given of the queue."""
    channel = await connect(address)
    offset, found = 0, []
    while offset < COUNT:
        pull = PullMessage("g", "orders", 0, offset, 32, 4, 0, 0, 0, subscription=expression)
        answer = await channel.exchange(pull.command(), timeout_ms=10_000)
        found += [record.body for record in decode_records(bytes(answer.body))]
        offset = int(answer.ext["nextBeginOffset"])
    assert OffsetReply.read((await channel.call(GetMaxOffset("orders", 0))).ext).offset == COUNT  # none came early
    channel.close()
    return found


def test_tags_are_selected_and_delays_kept(tmp_path: Path) -> None:
    store = tmp_path / "store"
    wanted = [b"%d" % number for number in range(COUNT) if number % 3 != 1]
    with CometNamesrv(tmp_path / "namesrv") as namesrv:
        conf = {"enableConsumeQueueExt": True, "messageDelayLevel": LEVELS}
        java, comet = (broker_of(kind, tmp_path, store, [namesrv.addr], **conf) for kind in ("java", "comet"))
        with java:
            asyncio.run(fill(java.addr))
            assert asyncio.run(pulled(java.addr, "a || c")) == wanted
            java.kill()
        (units,) = (store / "consumequeue" / "orders" / "0").iterdir()
        assert int.from_bytes(units.read_bytes()[12:20], "big", signed=True) <= ADDRESS_MAX
        with comet:
            assert asyncio.run(pulled(comet.addr, "a || c")) == wanted
            comet.kill()
