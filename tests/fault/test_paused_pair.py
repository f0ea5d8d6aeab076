"""Row 11 with a slave: master and slave are stopped for a while by turns, under load.

Nothing that was acknowledged is lost, at the master and at the slave; afterwards the slave catches up by itself. Under
SYNC_MASTER the master is killed at the end, and the slave alone must have everything that was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.original import CometBroker

from .harness.ledger import Ledger
from .harness.pair import ROLES, caught_up, lost_at, start_pair, unequal
from .harness.rows import Row, share
from .harness.traffic import Traffic

pytestmark = pytest.mark.timeout(240)

LONGEST_S, PAIRS = (1.5, 1) if share() is None else (60, 4)  # pairs at a time
LIFE_PAUSES = 4  # of a pair; after each everything is read


@pytest.mark.parametrize(("role", "trimmed", "full"), [("SYNC_MASTER", 2, 100), ("ASYNC_MASTER", 2, 100)])
async def test_pauses_of_master_and_slave(tmp_path: Path, role: str, trimmed: int, full: int) -> None:
    with Row(11, f"master and slave paused, {role}", trimmed=trimmed, full=full) as row:
        lives = iter(range(0, row.count, LIFE_PAUSES))
        async with asyncio.TaskGroup() as group:
            for _ in range(PAIRS):
                group.create_task(live(row, lives, tmp_path, role))


async def live(row: Row, lives: Iterator[int], folder: Path, role: str) -> None:
    """One pair after the other, as long as there are pauses left."""
    for first in lives:
        if row.violations:
            return
        with ExitStack() as running:
            home = folder / str(first)
            home.mkdir()
            master, slave = await asyncio.to_thread(start_pair, home, running, ROLES[role])
            traffic = Traffic(Ledger(home / "ledger.jsonl"))
            for number in range(first, min(first + LIFE_PAUSES, row.count)):
                await pause(row, number, master, slave, traffic)
                row.step()
            if role == "SYNC_MASTER":
                async with traffic.flowing(master.addr):
                    await traffic.grows()
                    master.kill()
                row.violations += [f"the slave of {first} alone: {fault}" for fault in await lost_at(slave, traffic)]
            row.violations += [f"pair {first}: {fault}" for fault in await unequal(master, slave)]
            slave.kill()
            master.kill()
            traffic.ledger.close()
            row.add(sent=traffic.sent, acknowledged=traffic.acknowledged, **counted(traffic))


async def pause(row: Row, number: int, master: CometBroker, slave: CometBroker, traffic: Traffic) -> None:
    paused, chance = (slave, master)[number % 2], row.chance_of(number)
    async with traffic.flowing(master.addr):
        await traffic.grows()
        await asyncio.sleep(chance.uniform(0, 0.5))
        os.kill(paused.pid, signal.SIGSTOP)
        await asyncio.sleep(LONGEST_S ** chance.random())  # from a second on; as many short ones as long ones
        os.kill(paused.pid, signal.SIGCONT)
        await traffic.grows()
    row.violations += [f"pause {number}, master: {fault}" for fault in await traffic.check(master.addr)]
    await caught_up(master, slave)
    row.violations += [f"pause {number}, slave: {fault}" for fault in await traffic.check(slave.addr)]


def counted(traffic: Traffic) -> dict[str, int]:
    return {f"status_{code}": count for code, count in sorted(traffic.statuses.items()) if code}
