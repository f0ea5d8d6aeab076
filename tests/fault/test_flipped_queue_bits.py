"""A broker whose queue files have flipped bits, after a clean stop and a kill: its consumer gets every message."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.original import CometBroker

from cometmq.cli import main
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.send import SendMessageV2

from .harness.rows import seed

pytestmark = pytest.mark.timeout(180)

CONF = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 100, "maxIndexNum": 1000}
TOPIC, COUNT, FLIPS = "flipped", 300, 12
UNIT_SIZE, PLACE_AND_SIZE = 20, 12
TIMEOUT_MS = 20_000


async def send(channel: Channel, number: int) -> None:
    request = SendMessageV2("producers", TOPIC, "TBW102", 1, 0, 0, 1, 0, properties="WAIT\x01true\x02")
    await channel.call(request, body_of(number), timeout_ms=TIMEOUT_MS)


def body_of(number: int) -> bytes:
    return b"message %d " % number * 20


async def consume(channel: Channel) -> list[bytes]:
    """All messages, as a consumer reads that goes on where each answer says."""
    found: list[bytes] = []
    offset = 0
    while offset < COUNT:
        request = PullMessage("readers", TOPIC, 0, offset, 32, 4, 0, 0, 0, subscription="*")
        answer = await channel.exchange(request.command(), timeout_ms=TIMEOUT_MS)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        found += [record.body for record in decode_records(bytes(answer.body), check_crc=True)]
        assert int(answer.ext["nextBeginOffset"]) > offset
        offset = int(answer.ext["nextBeginOffset"])
    return found


@pytest.mark.parametrize("stop", ["stopped", "killed"])
async def test_the_consumer_gets_every_message(tmp_path: Path, stop: str) -> None:
    store = tmp_path / "store"
    broker = CometBroker(tmp_path / "broker", ["127.0.0.1:1"], flush="SYNC_FLUSH", conf=CONF, store=store)
    with broker:
        channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
        for number in range(COUNT):
            await send(channel, number)
        channel.close()
        broker.stop()
    if stop == "killed":  # the queue is in its files by now; so what the next process leaves there is read again
        with broker:
            broker.kill()
    (path,) = (store / "consumequeue" / TOPIC / "0").iterdir()
    whole = path.read_bytes()
    data = bytearray(whole)
    chance = random.Random(f"{seed()} {stop}")
    for number in [0, *chance.sample(range(1, COUNT), FLIPS)]:
        data[number * UNIT_SIZE + chance.randrange(PLACE_AND_SIZE)] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    with broker:
        channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
        for _ in range(2):
            assert await consume(channel) == [body_of(number) for number in range(COUNT)]
        channel.close()
        broker.stop()
        assert f"{path}: unit 0 of queue 0 of {TOPIC} " in broker.output()
    assert path.read_bytes() == whole
    assert main(["store", "check", str(store), "-c", str(broker.conf)]) == 0
