"""Row 1: how soon a killed broker serves again, where its whole log is to be replayed.

A real process, started cold. What is made from the log (queues, index, checkpoint) is taken away before each start, so
every message is read, checked and dispatched again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import time
from pathlib import Path

import pytest
from tests.original import CometBroker

from cometmq import compiled
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.batch import encode_batch
from cometmq.wire.requests.consume import GetMaxOffset
from cometmq.wire.requests.send import SendBatchMessage

from .harness.capabilities import miss
from .harness.rows import Row, share

pytestmark = pytest.mark.timeout(300)

MIB = 1 << 20
SIZE = 64 * MIB
SERVES_WITHIN_S = 2.0 if share() == 1 else 30.0  # where others use the machine
BODY_SIZE, BATCH_COUNT, QUEUES = 1024, 512, 8
TOPIC = "orders"
CONF = {"mappedFileSizeCommitLog": 128 * MIB}  # one file: its beginning is where the replay begins
MADE_OF_THE_LOG = ("consumequeue", "index", "checkpoint")


@pytest.mark.parametrize(("twins", "pure"), [("compiled", "0"), ("pure Python", "1")])
async def test_a_killed_broker_serves_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twins: str, pure: str
) -> None:
    if pure == "0" and compiled.twins is None:
        miss("build the extension")
    monkeypatch.setenv("COMETMQ_PURE", pure)
    with Row(1, f"restart with 64 MiB to replay, {twins}", trimmed=1, full=10) as row:
        broker = CometBroker(tmp_path, [], flush="SYNC_FLUSH", conf=CONF)
        empty_s = await start(broker, 0)
        count = await fill(broker)
        broker.kill()
        took_s, processor_s = [], []
        for number in row.each():
            for name in MADE_OF_THE_LOG:
                path = broker.store / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            took_s.append(await start(broker, count))
            processor_s.append(processor_time_s(broker.pid))
            broker.kill()
            if took_s[-1] > SERVES_WITHIN_S:
                row.violations.append(f"start {number}: serves after {took_s[-1]:.2f} s")
        row.add(messages=count, start_on_an_empty_store_s=round(empty_s, 2))
        row.add(longest_start_s=round(max(took_s), 2), median_start_s=round(statistics.median(took_s), 2))
        row.add(median_processor_s=round(statistics.median(processor_s), 2))  # what no neighbour on the machine adds to


async def start(broker: CometBroker, count: int) -> float:
    """Seconds until it answers that all messages are there."""
    began = time.monotonic()
    await asyncio.to_thread(broker.start)
    channel = await connect(broker.addr)
    found = await visible(channel) if count else 0
    took_s = time.monotonic() - began
    channel.close()
    assert found == count
    return took_s


def processor_time_s(pid: int) -> float:
    """What a process has used, on all cores."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def fill(broker: CometBroker) -> int:
    """Send until the log is long enough; how many messages that makes."""
    channel = await connect(broker.addr)
    sent = 0
    while sent * BODY_SIZE < SIZE:
        messages = [(0, bytes([number % 256]) * BODY_SIZE, b"TAGS\x01a\x02") for number in range(BATCH_COUNT)]
        request = SendBatchMessage(
            "senders",
            TOPIC,
            "TBW102",
            QUEUES,
            sent // BATCH_COUNT % QUEUES,
            0,
            int(time.time() * 1000),
            0,
            "",
            batch=True,
        )
        await channel.call(request, encode_batch(messages), timeout_ms=30_000)
        sent += BATCH_COUNT
    assert await visible(channel) == sent
    channel.close()
    return sent


async def visible(channel: Channel) -> int:
    ends = [await channel.call(GetMaxOffset(TOPIC, queue_id), timeout_ms=30_000) for queue_id in range(QUEUES)]
    return sum(int(end.ext["offset"]) for end in ends)
