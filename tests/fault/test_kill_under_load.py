"""Rows 1 and 11: a broker process is killed, or stopped for a while, at random points under load.

The ledger stands outside. After every kill the broker starts again and is asked for everything new; now and then, and
at the end, for everything. A kill may also come while the broker is still recovering from the one before.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness.ledger import Ledger
from .harness.restarting import perhaps_killed_while_starting, start_again
from .harness.rows import Row, share
from .harness.traffic import Traffic
from .harness.warm import WarmBroker

pytestmark = pytest.mark.timeout(300)

RATE_MIN = 500
SLEEPERS = 2 if share() is None else 8
FOLDER_KILLS = 50  # then all is read once more, and a new folder is begun
CONF = {
    "mappedFileSizeCommitLog": 256 * 1024,
    "mappedFileSizeConsumeQueue": 300 * 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1_000,
    "flushIntervalConsumeQueue": 50,
    "flushConsumeQueueThoroughInterval": 300,
    "flushConsumerOffsetInterval": 100,
}


@pytest.mark.parametrize(("flush", "trimmed", "full"), [("SYNC_FLUSH", 8, 1_000), ("ASYNC_FLUSH", 3, 200)])
async def test_kills_under_load(tmp_path: Path, flush: str, trimmed: int, full: int) -> None:
    with Row(1, f"kill -9 under load, {flush}", trimmed=trimmed, full=full) as row:
        broker, traffic = begin(tmp_path, flush)
        starts: list[float] = []
        for number in row.each():
            async with traffic.flowing(broker.addr):
                await asyncio.sleep(row.chance.uniform(0.02, 0.8))
                broker.kill()
            await perhaps_killed_while_starting(broker, row, row.chance)
            starts.append(start_again(broker, row))
            last = number + 1 == row.count or (number + 1) % FOLDER_KILLS == 0
            row.violations += [f"kill {number}: {fault}" for fault in await traffic.check(broker.addr, whole=last)]
            if last:
                count(row, traffic)
                broker.kill()
                if not row.violations:
                    shutil.rmtree(tmp_path)
                if number + 1 < row.count:
                    broker, traffic = begin(tmp_path, flush)
        broker.kill()
        judge_rate(row)
        row.numbers["longest_start_s"] = round(max(starts), 2)


@pytest.mark.parametrize(("flush", "trimmed", "full"), [("SYNC_FLUSH", 2, 200), ("ASYNC_FLUSH", 2, 40)])
async def test_pauses_under_load(tmp_path: Path, flush: str, trimmed: int, full: int) -> None:
    """SIGSTOP and SIGCONT: nothing is lost, and what waited is answered. Several brokers sleep at a time."""
    with Row(11, f"process paused under load, {flush}", trimmed=trimmed, full=full) as row:
        numbers = row.each()
        async with asyncio.TaskGroup() as group:
            for sleeper in range(SLEEPERS):
                group.create_task(pause(row, numbers, tmp_path / str(sleeper), flush))


async def pause(row: Row, numbers: Iterator[int], folder: Path, flush: str) -> None:
    """One broker, paused as long as there are numbers left, then killed."""
    broker, traffic = begin(folder, flush)
    longest_s = 1.5 if share() is None else 20
    for number in numbers:
        chance = row.chance_of(number)
        async with traffic.flowing(broker.addr):
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            os.kill(broker.pid, signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(1, longest_s))
            os.kill(broker.pid, signal.SIGCONT)
            answered = traffic.acknowledged
            async with asyncio.timeout(60):
                while traffic.acknowledged == answered:  # noqa: ASYNC110 (another process has no event)
                    await asyncio.sleep(0.01)
        row.violations += [f"pause {number}: {fault}" for fault in await traffic.check(broker.addr)]
    broker.kill()
    start_again(broker, row)
    row.violations += [f"after a kill: {fault}" for fault in await traffic.check(broker.addr)]
    count(row, traffic)
    broker.kill()


def begin(folder: Path, flush: str) -> tuple[WarmBroker, Traffic]:
    folder.mkdir(exist_ok=True)
    broker = WarmBroker(folder / "broker", [], flush=flush, conf=CONF)
    broker.start()
    return broker, Traffic(Ledger(folder / "ledger.jsonl"))


def count(row: Row, traffic: Traffic) -> None:
    traffic.ledger.close()
    row.add(sent=traffic.sent, acknowledged=traffic.acknowledged, sending_s=round(traffic.sending_s, 2))


def judge_rate(row: Row) -> None:
    """The load counts only if it was one; on a machine that others use too, only full runs are held to it."""
    if "sending_s" not in row.numbers:
        return
    rate = row.numbers["acknowledged"] / row.numbers["sending_s"]
    row.numbers["acknowledged_per_s"] = round(rate)
    if share() == 1 and rate < RATE_MIN:
        row.violations.append(f"the load was {rate:.0f} messages/s; {RATE_MIN} are wanted")
