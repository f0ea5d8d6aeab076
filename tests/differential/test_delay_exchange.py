"""A store with delayed messages under way passes to the other and back: each arrives once, as the offsets say."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.original import BrokerProcess, CometBroker, CometNamesrv, JavaBroker

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.delay import GetAllDelayOffset
from cometmq.wire.requests.send import SendMessageV2

pytestmark = pytest.mark.timeout(300)

LEVEL_2_MS = 5_000
CONF = {
    "messageDelayLevel": "1s 5s 1h",
    "mappedFileSizeCommitLog": 1 << 20,
    "flushDelayOffsetInterval": 200,
    "waitTimeMillsInSendQueue": 10_000,
}
AWAIT_S = 30.0


async def send(channel: Channel, name: str, level: int) -> None:
    text = f"UNIQ_KEY\x01{name}\x02DELAY\x01{level}\x02"
    request = SendMessageV2("producers", "orders", "TBW102", 1, 0, 0, 1, 0, text)
    await channel.call(request, b"later", timeout_ms=10_000)


async def delivered(channel: Channel, count: int) -> list[Record]:
    """What has arrived, once it is so much."""
    deadline = time.monotonic() + AWAIT_S
    while True:
        pull = PullMessage("readers", "orders", 0, 0, 32, 4, 0, 0, 0, subscription="*")
        answer = await channel.exchange(pull.command(), timeout_ms=10_000)
        found = list(decode_records(bytes(answer.body))) if answer.code == ResponseCode.SUCCESS else []
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, f"{len(found)} of {count} delayed messages arrived"
        await asyncio.sleep(0.05)


async def offsets(channel: Channel) -> dict[str, int]:
    table: dict[str, int] = fastjson.loads((await channel.call(GetAllDelayOffset())).body)["offsetTable"]
    return table


def names(records: list[Record]) -> list[str]:
    """What has arrived, and who left a mark on it."""
    by = {True: " by CometMQ", False: ""}
    return [one.properties["UNIQ_KEY"] + by["__COMET_DELIVERED" in one.properties] for one in records]


def await_saved(store: Path, table: dict[str, int]) -> None:
    deadline = time.monotonic() + AWAIT_S
    path = store / "config" / "delayOffset.json"
    saved: dict[str, int] = {}
    while saved != table:
        assert time.monotonic() < deadline, f"{table} was not saved, but {saved}"
        time.sleep(0.05)
        with suppress(FileNotFoundError):  # the original removes it before it puts the next one there
            saved = fastjson.loads(path.read_bytes())["offsetTable"]


async def test_delayed_messages_pass_to_the_other_and_back(tmp_path: Path) -> None:
    """Nothing becomes due while a broker ends: how long the original takes to stop is unknown, and a kill is quick."""
    store = tmp_path / "store"
    with CometNamesrv(tmp_path / "namesrv") as namesrv:
        java = JavaBroker(tmp_path / "java", [namesrv.addr], store=store, conf=CONF)
        comet = CometBroker(tmp_path / "comet", [namesrv.addr], flush="SYNC_FLUSH", store=store, conf=CONF)
        with java:
            channel = await connect(java.addr)
            await send(channel, "j1", 1)
            await send(channel, "j3", 3)
            assert names(await delivered(channel, 1)) == ["j1"]
            channel.close()
            java.stop()
        with comet:
            channel = await connect(comet.addr)
            assert await offsets(channel) == {"1": 1, "3": 0}
            await send(channel, "c1", 1)
            await send(channel, "c3", 3)
            assert names(await delivered(channel, 2)) == ["j1", "c1 by CometMQ"]
            await_saved(store, {"1": 2, "3": 0})
            sent_ms = await leave_waiting(channel, "c2", comet)
        with java:
            channel = await connect(java.addr)
            found = await delivered(channel, 3)
            assert names(found) == ["j1", "c1 by CometMQ", "c2"], [r.store_time_ms for r in found]
            assert found[-1].store_time_ms >= sent_ms + LEVEL_2_MS
            await_saved(store, {"1": 2, "2": 1, "3": 0})
            sent_ms = await leave_waiting(channel, "j2", java)
        with comet:
            channel = await connect(comet.addr)
            found = await delivered(channel, 4)
            assert names(found) == ["j1", "c1 by CometMQ", "c2", "j2 by CometMQ"]
            assert found[-1].store_time_ms >= sent_ms + LEVEL_2_MS
            assert await offsets(channel) == {"1": 2, "2": 2, "3": 0}
            channel.close()
            comet.kill()


async def leave_waiting(channel: Channel, name: str, broker: BrokerProcess) -> int:
    """Kill the broker right after it has taken a message of level 2; a time before it was stored, in milliseconds."""
    sent_ms = int(time.time() * 1000)
    await send(channel, name, 2)
    broker.kill()
    channel.close()
    return sent_ms
