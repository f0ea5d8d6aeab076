"""A broker process is killed again and again while many transactions are ended: who says it again is told the truth."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from cometmq.errors import PeerError
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.bodies.positions import Position, pack_positions
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.extensions import Ended, EndTransactions
from cometmq.wire.requests.send import SendMessageV2

from .harness.warm import WarmBroker

COUNT, KILLS, CHUNK = 2_000, 2, 100
TOPIC, GROUP = "orders", "sinks"
COMMIT, ROLLBACK = 8, 12

pytestmark = pytest.mark.timeout(240)


async def begin_all(channel: Channel) -> list[Position]:
    async def begin(number: int) -> Position:
        text = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02UNIQ_KEY\x01u{number}\x02__COMET_PATIENT\x01mine\x02"
        request = SendMessageV2(GROUP, TOPIC, "TBW102", 4, 0, 0, 0, 0, properties=text)
        ext = (await channel.call(request, b"%d" % number, timeout_ms=60_000)).ext
        return Position(int(ext["queueOffset"]), int(ext["msgId"][-16:], 16))

    return list(await asyncio.gather(*(begin(number) for number in range(COUNT))))


async def end(channel: Channel, positions: list[Position], verdict: int) -> Counter[int]:
    """End them, some at a time."""
    found: Counter[int] = Counter()
    for at in range(0, len(positions), CHUNK):
        body = pack_positions(positions[at : at + CHUNK])
        found.update((await channel.call(EndTransactions(GROUP, verdict, "mine"), body, timeout_ms=60_000)).body)
    return found


async def visible(channel: Channel) -> int:
    return int((await channel.call(GetMaxOffset(TOPIC, 0), timeout_ms=60_000)).ext["offset"])


async def await_visible(channel: Channel, count: int) -> None:
    async with asyncio.timeout(60):
        while await visible(channel) < count:  # noqa: ASYNC110 (another process has no event)
            await asyncio.sleep(0.001)


async def read_all(channel: Channel) -> list[int]:
    found: list[int] = []
    while len(found) < await visible(channel):
        request = PullMessage("readers", TOPIC, 0, len(found), 32, 4, 0, 0, 0, subscription="*")
        body = bytes((await channel.call(request, timeout_ms=60_000)).body)
        found += [int(record.body) for record in decode_records(body, check_crc=True)]
    return found


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_kills_while_many_are_ended(tmp_path: Path, flush: str) -> None:
    with WarmBroker(tmp_path, [], flush=flush) as broker:
        channel = await connect(broker.addr)
        positions = await begin_all(channel)
        kept, dropped = positions[::2], positions[1::2]
        for kill in range(KILLS):
            ending = asyncio.gather(end(channel, kept, COMMIT), end(channel, dropped, ROLLBACK), return_exceptions=True)
            await await_visible(channel, kill * CHUNK * 2 + 1)
            broker.kill()
            for outcome in await ending:
                assert isinstance(outcome, Counter | PeerError)
            channel.close()
            broker.start()
            channel = await connect(broker.addr)
        assert await end(channel, kept, COMMIT) == {Ended.AS_ASKED: len(kept)}
        assert await end(channel, dropped, ROLLBACK) == {Ended.AS_ASKED: len(dropped)}
        broker.kill()
        broker.start()
        channel.close()
        channel = await connect(broker.addr)
        assert await end(channel, kept, ROLLBACK) == {Ended.OTHERWISE: len(kept)}
        assert await end(channel, dropped, COMMIT) == {Ended.OTHERWISE: len(dropped)}
        found = await read_all(channel)
        channel.close()
        broker.kill()
    assert found == list(range(0, COUNT, 2))
