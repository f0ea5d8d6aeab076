"""Row 17: the wall clock of a broker process jumps and drifts under load, and the process is killed in between.

Nothing acknowledged is lost or repeated, wherever the clock stands when the broker starts; store times never decrease
in the log; no file is deleted as too old; and messages for later come once, and none more than a second early: neither
by the clock, nor, where it was set back, by the time that has passed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.send import SendMessageV2

from .harness.jumping import JumpingBroker, WallClock
from .harness.ledger import Ledger
from .harness.restarting import start_again
from .harness.rows import Row
from .harness.traffic import Traffic

pytestmark = pytest.mark.timeout(300)

FOLDER_JUMPS = 10
LATER_COUNT = 12
WAITS_S = (2, 30)
EARLY_S = 1.0
DELIVERED_WITHIN_S = 60
DRIFT_STEPS, DRIFT_EVERY_S = 200, 0.005
DRIFTS_MS = (-7, -3, 3, 7)  # a step; at -7 the clock runs backwards, at 7 more than twice as fast
TOPIC, GROUP = "later", "readers"
CONF = {
    "mappedFileSizeCommitLog": 256 * 1024,
    "mappedFileSizeConsumeQueue": 300 * 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1_000,
    "messageDelayLevel": " ".join(f"{wait_s}s" for wait_s in WAITS_S),
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "cleanResourceInterval": 100,
}


@dataclass
class Waiting:
    """A message for later."""

    due_ms: int  # by the clock that jumps
    due_s: float  # by the one that does not
    seen_s: float | None = None


@dataclass
class Later:
    """Every message for later, and what was wrong with those that came."""

    wall: WallClock
    waiting: dict[str, Waiting] = field(default_factory=dict)

    async def send(self, address: str) -> None:
        channel = await connect(address)
        for number in range(LATER_COUNT):
            name, level = f"{len(self.waiting)}", number % len(WAITS_S)
            one = Waiting(self.wall.now_ms() + WAITS_S[level] * 1000, time.monotonic() + WAITS_S[level])
            wanted = f"DELAY\x01{level + 1}" if number % 3 else f"TIMER_DELIVER_MS\x01{one.due_ms}"
            text = f"UNIQ_KEY\x01later{name}\x02{wanted}\x02"
            request = SendMessageV2("senders", TOPIC, "TBW102", 1, 0, 0, 0, 0, properties=text)
            self.waiting[name] = one
            await channel.call(request, name.encode(), timeout_ms=30_000)
        channel.close()

    async def look(self, address: str) -> list[str]:
        """What is wrong with those that have come until now."""
        channel = await connect(address)
        found = await read_all(channel, TOPIC, 0)
        channel.close()
        return self.judge(found)

    def judge(self, found: list[Record]) -> list[str]:
        counts = Counter(record.body.decode() for record in found)
        faults = [f"message {name} for later came {count} times" for name, count in counts.items() if count > 1]
        for record in found:
            one = self.waiting[record.body.decode()]
            if one.seen_s is None:
                one.seen_s = time.monotonic()
            early_s = min((one.due_ms - record.store_time_ms) / 1000, one.due_s - one.seen_s)
            if early_s > EARLY_S:
                faults.append(f"message {record.body.decode()} for later came {early_s:.1f} s early")
        return faults

    async def finish(self, address: str) -> list[str]:
        """The clock is where all are due: wait for them."""
        deadline = time.monotonic() + DELIVERED_WITHIN_S
        while not (faults := await self.look(address)) and self._missing() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return faults + [f"message {name} for later never came" for name in self._missing()]

    def _missing(self) -> list[str]:
        return [name for name, one in self.waiting.items() if one.seen_s is None]


async def test_jumps_under_load(tmp_path: Path) -> None:
    with Row(17, "clock jumps, drifts and kills under load", trimmed=4, full=100) as row:
        for first in range(0, row.count, FOLDER_JUMPS):
            folder = tmp_path / str(first)
            folder.mkdir()
            wall = WallClock(folder / "ahead")
            with JumpingBroker(folder / "broker", wall, flush="SYNC_FLUSH", conf=CONF) as broker:
                traffic, later = Traffic(Ledger(folder / "ledger.jsonl")), Later(wall)
                for number in range(first, min(first + FOLDER_JUMPS, row.count)):
                    faults = await jump(row, number, broker, wall, traffic, later)
                    row.violations += [f"jump {number}: {fault}" for fault in faults]
                    row.step()
                wall.ahead_ms += max(wall.latest_ms - wall.now_ms(), 0) + 2 * WAITS_S[-1] * 1000
                faults = await later.finish(broker.addr) + await traffic.check(broker.addr)
                faults += await times_of_the_log(broker.addr, traffic)
                row.violations += [f"after the jumps from {first} on: {fault}" for fault in faults]
                traffic.ledger.close()
                row.add(acknowledged=traffic.acknowledged, sending_s=traffic.sending_s, for_later=len(later.waiting))
                broker.kill()
            if row.violations:
                return
        row.numbers["acknowledged_per_s"] = round(row.numbers["acknowledged"] / row.numbers.pop("sending_s"))


async def jump(
    row: Row, number: int, broker: JumpingBroker, wall: WallClock, traffic: Traffic, later: Later
) -> list[str]:
    """Once, under load; every second time the broker is killed, too, and the clock may jump while it is away."""
    kills = number % 2 == 1
    async with traffic.flowing(broker.addr):
        await later.send(broker.addr)
        await asyncio.sleep(row.chance.uniform(0.05, 0.5))
        if row.chance.random() < 0.25:
            await drift(wall, row.chance.choice(DRIFTS_MS))
            row.add(drifts=1)
        else:
            wall.jump(row.chance)
            row.add(jumps=1)
        await traffic.grows()
        faults = await later.look(broker.addr)
        await asyncio.sleep(row.chance.uniform(0.05, 0.5))
        if kills:
            broker.kill()
            row.add(kills=1)
    if kills:
        if row.chance.random() < 0.6:
            wall.jump(row.chance)
            row.add(jumps_while_away=1)
        await asyncio.to_thread(start_again, broker, row)
    return faults + await later.look(broker.addr) + await traffic.check(broker.addr, whole=kills)


async def drift(wall: WallClock, step_ms: int) -> None:
    """The clock goes wrong for a second, in many small steps."""
    for _ in range(DRIFT_STEPS):
        wall.ahead_ms += step_ms
        await asyncio.sleep(DRIFT_EVERY_S)


async def times_of_the_log(address: str, traffic: Traffic) -> list[str]:
    channel = await connect(address)
    records = [record for queue in traffic.queues for record in await read_all(channel, *queue)]
    records += await read_all(channel, TOPIC, 0)
    channel.close()
    return wrong_times(records)


def wrong_times(records: list[Record]) -> list[str]:
    records.sort(key=lambda record: record.physical_offset)
    return [
        f"the message at {after.physical_offset} was stored {before.store_time_ms - after.store_time_ms} ms before "
        f"that at {before.physical_offset}"
        for before, after in pairwise(records)
        if after.store_time_ms < before.store_time_ms
    ]


async def read_all(channel: Channel, topic: str, queue_id: int) -> list[Record]:
    found: list[Record] = []
    end = int((await channel.call(GetMaxOffset(topic, queue_id), timeout_ms=30_000)).ext["offset"])
    while len(found) < end:
        request = PullMessage(GROUP, topic, queue_id, len(found), 32, 4, 0, 0, 0, subscription="*")
        found += decode_records(bytes((await channel.call(request, timeout_ms=30_000)).body), check_crc=True)
    return found
