"""A broker on a log that is damaged in its middle: it serves what is left, takes nothing, and says where; repaired, it
takes messages again.
"""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path

import pytest
from tests.original import CometBroker

from cometmq.cli import main
from cometmq.errors import PeerRefused
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.send import SendMessageV2

pytestmark = pytest.mark.timeout(180)

CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1000,
    "flushIntervalConsumeQueue": 50,
    "flushCommitLogThoroughInterval": 200,  # or a few messages would wait for 10 s under ASYNC_FLUSH
}
TOPIC, COUNT, HIT = "damaged", 30, 11
TIMEOUT_MS = 20_000
HEAD_SIZE = 88


async def send(channel: Channel, body: bytes) -> int:
    request = SendMessageV2(
        "producers", TOPIC, "TBW102", 1, 0, 0, int(time.time() * 1000), 0, properties="WAIT\x01true\x02"
    )
    return int((await channel.call(request, body, timeout_ms=TIMEOUT_MS)).ext["queueOffset"])


async def pull(channel: Channel, offset: int) -> tuple[list[bytes], int]:
    request = PullMessage("readers", TOPIC, 0, offset, 32, 4, 0, 0, 0, subscription="*")
    answer = await channel.exchange(request.command(), timeout_ms=TIMEOUT_MS)
    if answer.code != ResponseCode.SUCCESS:
        return [], 0
    return [record.body for record in decode_records(bytes(answer.body))], int(answer.ext["nextBeginOffset"])


async def await_synced(store: Path, time_ms: int) -> None:
    """Until the checkpoint says that what was stored at this time is on the disk."""
    deadline = time.monotonic() + 30
    while struct.unpack(">q", (store / "checkpoint").read_bytes()[:8])[0] < time_ms:
        assert time.monotonic() < deadline, "the checkpoint was not moved"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_it_serves_what_is_left_and_takes_nothing(tmp_path: Path, flush: str) -> None:
    store = tmp_path / "store"
    broker = CometBroker(tmp_path / "broker", ["127.0.0.1:1"], flush=flush, conf=CONF, store=store)
    with broker:
        channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
        for number in range(COUNT):
            await send(channel, b"message %d" % number * 20)
        await asyncio.sleep(0.002)  # another millisecond
        last_ms = int(time.time() * 1000)
        await send(channel, b"last")
        await await_synced(store, last_ms)
        channel.close()
        broker.kill()

    log = store / "commitlog" / ("0" * 20)
    hit = log.read_bytes().index(b"message %d" % HIT * 20)
    data = bytearray(log.read_bytes())
    data[hit + 5] ^= 0xFF
    log.write_bytes(data)

    with broker:
        channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(
                PeerRefused, match=f"damaged at byte {hit - HEAD_SIZE}.*cometmq store repair"
            ) as refused:
                await send(channel, b"new")
            assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE and time.monotonic() - began < 5
        found, next_offset = await pull(channel, HIT + 1)
        assert found[0] == b"message %d" % (HIT + 1) * 20 and next_offset > HIT + 1
        assert (await pull(channel, 0))[0][0] == b"message 0" * 20
        channel.close()
        broker.stop()
        assert "FOR READING ONLY" in broker.output()
    assert (store / "abort").exists()
    assert log.read_bytes() == bytes(data)

    conf = str(broker.conf)
    assert main(["store", "check", str(store), "-c", conf]) == 1
    assert main(["store", "repair", str(store), "-c", conf, "--apply"]) == 0
    with broker:
        channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
        assert await send(channel, b"new") == COUNT + 1
        found, _ = await pull(channel, HIT)
        assert found[0].startswith(b"This message was damaged")
        assert found[1] == b"message %d" % (HIT + 1) * 20
        channel.close()
        broker.stop()
    assert main(["store", "check", str(store), "-c", conf]) == 0
