"""A master dies while its slave is away: the slave has what was acknowledged before, and the master's disk the rest.

Under ASYNC_MASTER the rest is what was acknowledged since then: readers lack it until the master is back, and it is
lost if its disk is gone. Under SYNC_MASTER nothing is acknowledged while the slave is away, so there is no rest.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.original import CometBroker

from .harness.ledger import SEND_OK, Found, Ledger, Queue
from .harness.pair import CONF, DEADLINE_S, ROLES, caught_up, held, start_pair
from .harness.traffic import Traffic

pytestmark = pytest.mark.timeout(180)

ALONE = 100  # messages that the master stores without its slave


@pytest.mark.parametrize("disk", ["kept", "gone"])
@pytest.mark.parametrize("role", ROLES)
async def test_a_master_dies_while_its_slave_is_away(tmp_path: Path, role: str, disk: str) -> None:
    with ExitStack() as running:
        master, slave = await asyncio.to_thread(start_pair, tmp_path, running, ROLES[role])
        traffic = Traffic(Ledger(tmp_path / "ledger.jsonl"))
        running.callback(traffic.ledger.close)
        async with traffic.flowing(master.addr):
            await traffic.grows()
        await caught_up(master, slave)
        at_both = acknowledged(traffic)
        assert names(await held(slave, traffic)) >= at_both
        slave.kill()
        async with traffic.flowing(master.addr):
            await stored_alone(traffic)
            master.kill()
        at_master = acknowledged(traffic) - at_both
        assert at_both and bool(at_master) == (role == "ASYNC_MASTER")

        slave.start()
        left = await held(slave, traffic)
        assert traffic.ledger.check(left, lost_is_allowed=True) == []
        assert acknowledged(traffic) - names(left) == at_master
        if disk == "kept":
            master.start()
            await caught_up(master, slave)
            assert await traffic.check(master.addr) == await traffic.check(slave.addr) == []
        else:
            shutil.rmtree(master.store)
            slave.kill()
            await takes_over(tmp_path, running, slave, traffic, left)


async def takes_over(
    folder: Path, running: ExitStack, slave: CometBroker, traffic: Traffic, left: dict[Queue, list[Found]]
) -> None:
    """The slave's folder under a new master: what was left is there, and more is taken."""
    heir = CometBroker(
        folder / "heir", slave.namesrv, flush="SYNC_FLUSH", conf=CONF, name="broker-a", store=slave.store
    )
    running.callback(heir.kill)
    heir.start()
    assert await held(heir, traffic) == left
    more = Traffic(Ledger(), topic="more")
    async with more.flowing(heir.addr):
        await more.grows()
    assert await more.check(heir.addr) == []


async def stored_alone(traffic: Traffic) -> None:
    before = len(traffic.ledger.promised)
    async with asyncio.timeout(DEADLINE_S):
        while len(traffic.ledger.promised) < before + ALONE:  # noqa: ASYNC110 (another process has no event)
            await asyncio.sleep(0.01)


def acknowledged(traffic: Traffic) -> set[str]:
    return {name for name, promise in traffic.ledger.promised.items() if promise.status == SEND_OK}


def names(found: dict[Queue, list[Found]]) -> set[str]:
    return {one.name for messages in found.values() for one in messages}
