"""A master and its slave as processes, both in SYNC_FLUSH: how far each is, what it has, whether the two are equal."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.original import BrokerProcess, CometBroker, CometNamesrv

from cometmq.net.pool import connect
from cometmq.wire.bodies.kv import decode_kv_table
from cometmq.wire.requests.admin import GetBrokerRuntimeInfo

from .ledger import Found, Queue
from .traffic import TIMEOUT_MS, NothingServed, Traffic, read_queue
from .warm import WarmBroker

DEADLINE_S = 120
ROLES: Final[dict[str, dict[str, object]]] = {
    "SYNC_MASTER": {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 500},
    "ASYNC_MASTER": {"brokerRole": "ASYNC_MASTER"},
}
CONF = {
    "mappedFileSizeCommitLog": 4 << 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1_000,
    "slaveReadEnable": True,
    "registerNameServerPeriod": 1_000,
    "haSendHeartbeatInterval": 1_000,
}


def start_pair(folder: Path, running: ExitStack, conf: dict[str, object]) -> tuple[CometBroker, CometBroker]:
    namesrv = CometNamesrv(folder / "namesrv")
    running.callback(namesrv.kill)
    namesrv.start()
    roles = {"master": conf, "slave": {"brokerRole": "SLAVE", "brokerId": 1}}
    master, slave = (
        WarmBroker(folder / name, [namesrv.addr], flush="SYNC_FLUSH", conf={**CONF, **keys}, name="broker-a")
        for name, keys in roles.items()
    )
    for broker in (master, slave):
        running.callback(broker.kill)
        broker.start()
    return master, slave


async def progress(broker: BrokerProcess) -> tuple[int, bool]:
    """Where the log of a broker ends, and whether all of it can be seen."""
    channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
    try:
        table = decode_kv_table((await channel.call(GetBrokerRuntimeInfo(), timeout_ms=TIMEOUT_MS)).body)
    finally:
        channel.close()
    seen = table["remainHowManyDataToFlush"] == "0 B" and table["dispatchBehindBytes"] == "0"
    return int(table["commitLogMaxOffset"]), seen


async def caught_up(master: CometBroker, slave: CometBroker) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await progress(slave) != ((await progress(master))[0], True):
            pass


async def held(broker: CometBroker, traffic: Traffic) -> dict[Queue, list[Found]]:
    """All messages that a broker has, once it shows them; a slave also asks its master for the topics before."""
    channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not (await progress(broker))[1]:
                pass
            while True:
                with contextlib.suppress(NothingServed):
                    return {queue: await read_queue(channel, queue, 0) for queue in traffic.queues}
    finally:
        channel.close()


async def lost_at(slave: CometBroker, traffic: Traffic) -> list[str]:
    """What was acknowledged and is not at the slave, and what is wrong there; what else was seen may be missing."""
    return [fault for fault in traffic.ledger.check(await held(slave, traffic)) if not fault.startswith("I5")]


async def unequal(master: CometBroker, slave: CometBroker) -> list[str]:
    """Whether the slave, which may be behind, has other bytes than the master."""
    end, _ = await progress(slave)
    ours, theirs = log_bytes(slave)[:end], log_bytes(master)[:end]
    if ours == theirs:
        return []
    first = next((at for at, both in enumerate(zip(ours, theirs, strict=False)) if both[0] != both[1]), len(theirs))
    return [f"of {end} bytes of the slave's log those from {first} on are not the master's"]


def log_bytes(broker: CometBroker) -> bytes:
    """The whole log, file after file."""
    return b"".join(path.read_bytes() for path in sorted((broker.store / "commitlog").iterdir()))
