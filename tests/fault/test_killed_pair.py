"""Row 1 with a slave: master, slave or both are killed again and again at random points under load, and start again.

While its master is dead, the slave alone has everything that was acknowledged under SYNC_MASTER, even if it was killed
as well; under ASYNC_MASTER it may lack the end, and nothing else. When both are back, they have the same bytes, and in
them everything that was acknowledged, in its place and in order.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.original import CometBroker

from .harness.ledger import Ledger
from .harness.pair import ROLES, caught_up, held, start_pair, unequal
from .harness.restarting import perhaps_killed_while_starting, start_again
from .harness.rows import Row, share
from .harness.traffic import Traffic

pytestmark = pytest.mark.timeout(240)

RATE_MIN = 500
PAIRS = 1 if share() is None else 3  # at a time
LIFE_ROUNDS = 8  # of a pair
MASTER, SLAVE = 0, 1
DEATHS = ((MASTER,), (SLAVE,), (MASTER, SLAVE), (SLAVE, MASTER))  # one after the other


@pytest.mark.parametrize(("role", "trimmed", "full"), [("SYNC_MASTER", 4, 200), ("ASYNC_MASTER", 4, 200)])
async def test_kills_of_master_and_slave_under_load(tmp_path: Path, role: str, trimmed: int, full: int) -> None:
    with Row(1, f"kill -9 of master or slave under load, {role}", trimmed=trimmed, full=full) as row:
        lives = iter(range(0, row.count, LIFE_ROUNDS))
        async with asyncio.TaskGroup() as group:
            for _ in range(PAIRS):
                group.create_task(live(row, lives, tmp_path, role))
        judge_rate(row)


async def live(row: Row, lives: Iterator[int], folder: Path, role: str) -> None:
    """One pair after the other, as long as there are rounds left."""
    for first in lives:
        if row.violations:
            return
        home = folder / str(first)
        home.mkdir()
        with ExitStack() as running:
            pair = await asyncio.to_thread(start_pair, home, running, ROLES[role])
            traffic = Traffic(Ledger(home / "ledger.jsonl"))
            running.callback(traffic.ledger.close)
            async with traffic.flowing(pair[MASTER].addr):
                await traffic.grows()
            await caught_up(*pair)
            await held(pair[SLAVE], traffic)  # that is when it knows the topic
            for number in range(first, min(first + LIFE_ROUNDS, row.count)):
                faults = await die_and_come_back(row, number, pair, traffic, role)
                row.violations += [f"round {number}: {fault}" for fault in faults]
                row.step()
        row.add(sent=traffic.sent, acknowledged=traffic.acknowledged, sending_s=round(traffic.sending_s, 2))
        row.add(**{f"status_{code}": count for code, count in sorted(traffic.statuses.items()) if code})
        if not row.violations:
            shutil.rmtree(home)


async def die_and_come_back(
    row: Row, number: int, pair: tuple[CometBroker, CometBroker], traffic: Traffic, role: str
) -> list[str]:
    (master, slave), dead, chance = pair, DEATHS[number % len(DEATHS)], row.chance_of(number)

    async def start(broker: CometBroker) -> None:
        await perhaps_killed_while_starting(broker, row, chance)
        await asyncio.to_thread(start_again, broker, row)

    async with traffic.flowing(master.addr):
        await traffic.grows()
        await asyncio.sleep(chance.uniform(0, 0.8))
        for victim in dead:
            pair[victim].kill()
            row.add(kills=1)
            await asyncio.sleep(chance.uniform(0, 0.3))
        if SLAVE in dead:
            await start(slave)
        if MASTER not in dead:
            await traffic.grows()
    faults: list[str] = []
    if MASTER in dead:
        left = traffic.ledger.check(await held(slave, traffic))
        lacking = [fault for fault in left if fault.startswith("I1")]
        row.add(acknowledged_and_not_at_the_slave=len(lacking))
        allowed = ("I5",) if role == "SYNC_MASTER" else ("I1", "I5")
        faults += [f"the slave alone: {fault}" for fault in left if not fault.startswith(allowed)]
        await start(master)
    await caught_up(master, slave)
    faults += [f"master: {fault}" for fault in await traffic.check(master.addr)]
    faults += [f"slave: {fault}" for fault in await traffic.check(slave.addr)]
    return faults + await unequal(master, slave)


def judge_rate(row: Row) -> None:
    """The load of each pair; on a machine that others use too, only full runs are held to it."""
    if "sending_s" not in row.numbers:
        return
    rate = row.numbers["sent_per_s"] = round(row.numbers["sent"] / row.numbers["sending_s"])
    if share() == 1 and rate < RATE_MIN:
        row.violations.append(f"the load was {rate} messages/s; {RATE_MIN} are wanted")
