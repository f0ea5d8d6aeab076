"""Row 17: the wall clock jumps by an hour or a day, forwards and back, and drifts.

Store times never decrease, recovery finds everything wherever the clock stands, nothing is thrown away as too old, and
messages for later come once, and none before the clock says that it is time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.store.kit import HandClock, bodies, open_small, read_all, send, settle

from cometmq.broker.app import Broker, BrokerSettings, load_settings
from cometmq.clock import SystemClock
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.bodies.heartbeat import HeartbeatData
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.members import HeartBeat
from cometmq.wire.requests.send import SendMessageV2

from .harness.rows import Row

pytestmark = pytest.mark.timeout(300)

HOUR_MS = 3_600_000
JUMPS_MS = (HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS, -30 * 24 * HOUR_MS, 70)
ANY_HOUR = ";".join(f"{hour:02d}" for hour in range(24))  # or it would depend on when the test is run
LONGER_THAN_ALL_JUMPS = 2 * 6 * 24 + 1  # hours
TOPIC, GROUP = "later", "readers"


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
        clock.ms += row.chance.choice(JUMPS_MS)
        store.maintain(thorough=row.chance.random() < 0.5)
        store.clean_expired()
        if row.chance.random() < 0.6:
            store.abandon() if row.chance.random() < 0.6 else store.close()
            clock.ms += row.chance.choice(JUMPS_MS)
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


class JumpingClock(SystemClock):
    """The machine's clock, put forward or back; what is measured does not jump."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


async def test_messages_for_later_over_jumps(tmp_path: Path) -> None:
    """Delay levels and timers: one jump after the other while they wait."""
    with Row(17, "clock jumps, messages for later", trimmed=4, full=100) as row:
        clock = JumpingClock()
        broker = Broker(settings(tmp_path), clock=clock)
        await broker.start()
        channel = await connect(broker.address)
        await channel.call(HeartBeat(), HeartbeatData("client", ["senders"], []).encode())
        waiting: dict[str, Waiting] = {}
        for number in row.each():
            for kind in range(6):
                waiting[f"{number}.{kind}"] = await send_later(channel, clock, f"{number}.{kind}", kind)
            await asyncio.sleep(row.chance.uniform(0, 0.5))
            clock.ahead_ms += row.chance.choice(JUMPS_MS[:4])
            row.violations += judge(await delivered(channel), waiting)
        clock.ahead_ms += 60 * 24 * HOUR_MS  # everything is due now
        deadline = time.monotonic() + 60
        while len(found := await delivered(channel)) < len(waiting) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        row.violations += judge(found, waiting)
        missing = waiting.keys() - {record.body.decode() for record in found}
        if missing:
            row.violations.append(f"never delivered: {sorted(missing)}")
        channel.close()
        await broker.stop()


def settings(folder: Path) -> BrokerSettings:
    keys = {
        "storePathRootDir": str(folder / "store"),
        "listenPort": "0",
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "mappedFileSizeCommitLog": str(1 << 20),
        "maxHashSlotNum": "100",
        "maxIndexNum": "1000",
        "messageDelayLevel": "1s 2s",
    }
    return load_settings(keys)


@dataclass
class Waiting:
    """A message for later."""

    due_ms: int  # by the clock that jumps
    waited_s: float  # by the one that does not
    seen_s: float | None = None


async def send_later(channel: Channel, clock: JumpingClock, name: str, kind: int) -> Waiting:
    wait_ms = (1_000, 2_000)[kind % 2]
    one = Waiting(clock.now_ms() + wait_ms, time.monotonic() + wait_ms / 1_000)
    wanted = f"DELAY\x01{kind % 2 + 1}\x02" if kind < 4 else f"TIMER_DELIVER_MS\x01{one.due_ms}\x02"
    request = SendMessageV2("senders", TOPIC, "TBW102", 4, 0, 0, 0, 0, properties=f"UNIQ_KEY\x01{name}\x02{wanted}")
    await channel.call(request, name.encode(), timeout_ms=30_000)
    return one


def judge(found: list[Record], waiting: dict[str, Waiting]) -> list[str]:
    """Each once, and none before its time by the clock, or after it was set back, before it has waited so long.

    Store times do not go back with the clock: they may be later than it, and stand still until it is there again.
    """
    counts = Counter(record.body.decode() for record in found)
    faults = [f"{name} was delivered {count} times" for name, count in counts.items() if count > 1]
    for record in found:
        one = waiting[record.body.decode()]
        if one.seen_s is None:
            one.seen_s = time.monotonic()
        early_ms, early_s = one.due_ms - record.store_time_ms, one.waited_s - one.seen_s
        if early_ms > 1_000 and early_s > 1:
            faults.append(f"{record.body.decode()} came {early_ms} ms early by the clock, {early_s:.1f} s by waiting")
    return faults


async def delivered(channel: Channel) -> list[Record]:
    found: list[Record] = []
    end = int((await channel.call(GetMaxOffset(TOPIC, 0), timeout_ms=30_000)).ext["offset"])
    while len(found) < end:
        request = PullMessage(GROUP, TOPIC, 0, len(found), 32, 4, 0, 0, 0, subscription="*")
        found += decode_records(bytes((await channel.call(request, timeout_ms=30_000)).body), check_crc=True)
    return found
