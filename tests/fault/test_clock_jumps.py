"""Row 17: the wall clock jumps by an hour or a day, forwards and back.

Store times never decrease, recovery finds everything wherever the clock stands, and nothing is thrown away as too old:
no message, and no broker of the routes.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.unit.store.kit import HandClock, bodies, open_small, read_all, send, settle

from cometmq.model.data_version import DataVersion
from cometmq.model.topic import TopicConfig
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.bodies.cluster import decode_cluster_info
from cometmq.wire.bodies.registration import Registration, encode_registration
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.requests.namesrv import GetClusterInfo, GetRouteInfo, RegisterBroker

from .harness.jumping import JUMPS_MS, JumpingNamesrv, WallClock
from .harness.rows import Row

pytestmark = pytest.mark.timeout(300)

STEPS_MS = (*JUMPS_MS, 70)
ANY_HOUR = ";".join(f"{hour:02d}" for hour in range(24))  # or it would depend on when the test is run
LONGER_THAN_ALL_JUMPS = 2 * 6 * 24 + 1  # hours
CLUSTER, BROKERS = "jumping", 50


def test_a_store_whose_clock_jumps(quick_folder: Path) -> None:
    with Row(17, "clock jumps, store", trimmed=60, full=3_000) as row:
        for number in row.each():
            row.violations += [f"life {number}: {fault}" for fault in live(row, quick_folder / str(number))]


def live(row: Row, root: Path) -> list[str]:
    """Send, jump, die and start again, a few times."""
    clock = HandClock()
    clock.ms = int(time.time() * 1000)
    sent: list[bytes] = []
    retention = {"delete_when": ANY_HOUR, "file_reserved_time": LONGER_THAN_ALL_JUMPS}
    store = open_small(root, clock=clock, **retention)
    for _ in range(6):
        for _ in range(row.chance.randrange(1, 12)):
            sent.append(b"%d" % len(sent) * 40)
            send(store, sent[-1], keys=f"k{len(sent) - 1}")
            clock.ms += row.chance.choice((0, 1, 40))
        settle(store)
        clock.ms += row.chance.choice(STEPS_MS)
        store.maintain(thorough=row.chance.random() < 0.5)
        store.clean_expired()
        if row.chance.random() < 0.6:
            store.abandon() if row.chance.random() < 0.6 else store.close()
            clock.ms += row.chance.choice(STEPS_MS)
            store = open_small(root, clock=clock, **retention)
    times = [record.store_time_ms for record in read_all(store)]
    faults = [] if times == sorted(times) else [f"store times decrease: {times}"]
    if bodies(store) != sent:
        faults.append(f"{len(sent)} were sent, {len(bodies(store))} are there")
    if not store.writable:
        faults.append(f"not writable: {store.fault}")
    faults += [
        f"k{number} is not found" for number in range(len(sent)) if not store.query("T", f"k{number}", 8, 0, 1 << 60)
    ]
    store.close()
    return faults


async def test_routes_over_jumps(tmp_path: Path) -> None:
    """A NameServer looks after each jump for brokers that were silent too long: none of these was."""
    with Row(17, "clock jumps, routes", trimmed=6, full=100) as row:
        wall = WallClock(tmp_path / "ahead")
        conf = {"scanNotActiveBrokerInterval": 100}
        with JumpingNamesrv(tmp_path, wall, conf=conf) as namesrv:
            channel = await connect(namesrv.addr)
            names = [f"broker-{number}" for number in range(BROKERS)]
            for number in row.each():
                for name in names:
                    await register(channel, name)
                wall.jump(row.chance)
                await a_scan(namesrv.addr)
                known = decode_cluster_info((await channel.call(GetClusterInfo())).body).clusters.get(CLUSTER, [])
                row.violations += [f"jump {number}: {name} left the routes" for name in names if name not in known]
                route = decode_route((await channel.call(GetRouteInfo("T"))).body)
                row.violations += [f"jump {number}: {len(route.queues)} have queues"] * (len(route.queues) != BROKERS)
            channel.close()


async def register(channel: Channel, name: str, *, timeout_ms: int | None = None) -> None:
    topics = {topic: TopicConfig(topic, 4, 4) for topic in ("T", "x")}
    table = encode_registration(Registration(DataVersion(0, 1, 1), topics))
    request = RegisterBroker(0, name, f"{name}:10911", CLUSTER, heartbeat_timeout_millis=timeout_ms)
    await channel.call(request, table)


async def a_scan(address: str) -> None:
    """One more broker registers and is silent for longer than it promised: when it is cut off, all were looked at."""
    channel = await connect(address)
    await register(channel, "silent", timeout_ms=1)
    async with asyncio.timeout(30):
        while channel.is_open:  # noqa: ASYNC110 (a channel has no event to wait for)
            await asyncio.sleep(0.005)
