"""A real broker whose log lost its end, in files or in bytes, when it was killed or after it had stopped.

What was acknowledged and on the disk is never cut silently: `store check` says what is wrong, and the broker starts for
reading only, gives no offset twice, or refuses to start. Repaired, it goes on behind what was lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.original import CometBroker, ServerFailed

from cometmq.cli import main
from cometmq.errors import PeerRefused
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import GetMaxOffset
from cometmq.wire.requests.send import SendMessageV2

pytestmark = pytest.mark.timeout(180)

SEGMENT_SIZE = 1 << 16
CONF = {
    "mappedFileSizeCommitLog": SEGMENT_SIZE,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1000,
    "flushIntervalConsumeQueue": 50,
}
TOPIC, COUNT = "ends", 24
BODY_SIZE = 10_000
TIMEOUT_MS = 20_000
FLUSHED_AT = 2096  # of the checkpoint: how far the log is synced


async def send(channel: Channel, number: int) -> int:
    request = SendMessageV2("producers", TOPIC, "TBW102", 1, 0, 0, int(time.time() * 1000), 0)
    body = (b"message %d " % number).ljust(BODY_SIZE, b".")
    return int((await channel.call(request, body, timeout_ms=TIMEOUT_MS)).ext["queueOffset"])


async def connected(broker: CometBroker) -> Channel:
    return await connect(broker.addr, timeout_ms=TIMEOUT_MS)


async def fill(broker: CometBroker) -> None:
    """Send to an idle broker, and wait until its checkpoint knows of all."""
    channel = await connected(broker)
    for number in range(COUNT):
        assert await send(channel, number) == number
    channel.close()
    deadline = time.monotonic() + 30
    end = place_of(broker.store, COUNT - 1) + BODY_SIZE
    while flushed(broker.store) < end:
        assert time.monotonic() < deadline, "the checkpoint was not moved"
        await asyncio.sleep(0.02)


def file_at(store: Path, place: int) -> Path:
    return store / "commitlog" / f"{place // SEGMENT_SIZE * SEGMENT_SIZE:020d}"


def flushed(store: Path) -> int:
    return int.from_bytes((store / "checkpoint").read_bytes()[FLUSHED_AT : FLUSHED_AT + 8])


def place_of(store: Path, number: int) -> int:
    """Where the body of a message stands in the log."""
    for path in sorted((store / "commitlog").iterdir()):
        at = path.read_bytes().find(b"message %d " % number)
        if at >= 0:
            return int(path.name) + at
    raise AssertionError(f"message {number} is not in the log")


def flip(store: Path, number: int) -> None:
    place = place_of(store, number)
    with file_at(store, place).open("r+b") as file:
        file.seek(place % SEGMENT_SIZE)
        file.write(b"\xff")


def lose_last_files(store: Path) -> None:
    for path in sorted((store / "commitlog").iterdir())[2:]:
        path.unlink()


def content(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (store / "commitlog").iterdir()}


CASES: dict[str, tuple[bool, Callable[[Path], None]]] = {
    "killed, the message before the last": (False, lambda store: flip(store, COUNT - 2)),
    "stopped, the last message": (True, lambda store: flip(store, COUNT - 1)),
    "stopped, the last files": (True, lose_last_files),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_was_synced_is_never_cut(tmp_path: Path, case: str) -> None:
    clean, damage = CASES[case]
    broker = CometBroker(tmp_path / "broker", ["127.0.0.1:1"], flush="SYNC_FLUSH", conf=CONF, store=tmp_path / "store")
    with broker:
        await fill(broker)
        broker.stop() if clean else broker.kill()
    damage(broker.store)
    left, conf = content(broker.store), str(broker.conf)
    assert main(["store", "check", str(broker.store), "-c", conf]) == 1
    with broker:
        channel = await connected(broker)
        with pytest.raises(PeerRefused, match="cometmq store repair") as refused:
            await send(channel, COUNT)
        assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        answer = await channel.call(GetMaxOffset(topic=TOPIC, queue_id=0), timeout_ms=TIMEOUT_MS)
        assert int(answer.ext["offset"]) == COUNT
        channel.close()
        broker.stop()
        assert "FOR READING ONLY" in broker.output()
        assert ("did not stop cleanly" in broker.output()) == (not clean)
    assert content(broker.store) == left
    assert main(["store", "repair", str(broker.store), "-c", conf, "--apply"]) == 0
    with broker:
        channel = await connected(broker)
        assert await send(channel, COUNT) == COUNT
        channel.close()
    assert main(["store", "check", str(broker.store), "-c", conf]) == 0


async def test_a_log_that_is_not_mounted(tmp_path: Path) -> None:
    broker = CometBroker(tmp_path / "broker", ["127.0.0.1:1"], flush="SYNC_FLUSH", conf=CONF, store=tmp_path / "store")
    with broker:
        await fill(broker)
        broker.stop()
    log, away = broker.store / "commitlog", tmp_path / "away"
    log.rename(away)
    log.mkdir()
    assert main(["store", "check", str(broker.store), "-c", str(broker.conf)]) == 1
    for _ in range(2):
        with pytest.raises(ServerFailed, match="is its disk mounted"):
            broker.start()
    assert not list(log.iterdir())
    log.rmdir()
    away.rename(log)
    with broker:
        channel = await connected(broker)
        assert await send(channel, COUNT) == COUNT
        channel.close()
        assert "did not stop cleanly" not in broker.output()
