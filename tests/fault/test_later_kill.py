"""Row 25: a broker process is killed again and again while it delivers messages for later: each comes once, none early.

Delay levels and timers. Before each kill more messages are sent, and it comes when so many are delivered as chance
says, fewer than all: so always in the middle of a delivery.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cometmq.errors import PeerRefused
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.send import SendMessageV2

from .harness.restarting import start_again
from .harness.rows import Row, share
from .harness.warm import WarmBroker

pytestmark = pytest.mark.timeout(300)

BROKERS = 1 if share() is None else 4  # at a time
FOLDER_KILLS = 10
COUNT = 500  # messages for each kill
LEVELS_MS = (1_000, 2_000)
TIMERS_MS = (1_200, 2_700)  # so long one waits
DELIVERED_WITHIN_S = 60
TOPIC, GROUP, WAITING = "orders", "readers", "SCHEDULE_TOPIC_XXXX"


@dataclass
class Sent:
    """Everything that was sent for later, and when it is due: timers know, of delay levels the broker does."""

    timers: bool
    due_ms: dict[str, int] = field(default_factory=dict)

    async def more(self, channel: Channel, row: Row) -> None:
        first = len(self.due_ms)
        await asyncio.gather(*(self._send(channel, f"m{first + n}", row) for n in range(COUNT)))

    async def _send(self, channel: Channel, name: str, row: Row) -> None:
        if self.timers:
            self.due_ms[name] = int(time.time() * 1000) + row.chance.randrange(*TIMERS_MS)
            wanted = f"TIMER_DELIVER_MS\x01{self.due_ms[name]}"
        else:
            self.due_ms[name] = 0
            wanted = f"DELAY\x01{row.chance.randrange(len(LEVELS_MS)) + 1}"
        text = f"UNIQ_KEY\x01{name}\x02{wanted}\x02"
        request = SendMessageV2(GROUP, TOPIC, "TBW102", 1, 0, 0, 0, 0, properties=text)
        await channel.call(request, name.encode(), timeout_ms=30_000)

    async def judge(self, channel: Channel) -> list[str]:
        """What is wrong with what was delivered, once all should be."""
        for queue_id, level_ms in enumerate(() if self.timers else LEVELS_MS):
            for record in await read_all(channel, WAITING, queue_id):
                self.due_ms[record.body.decode()] = record.store_time_ms + level_ms
        found = await read_all(channel, TOPIC, 0)
        times = Counter(record.body.decode() for record in found)
        faults = [f"{name} was delivered {times[name]} times" for name in self.due_ms if times[name] != 1]
        faults += [f"{name} was never sent" for name in times if name not in self.due_ms]
        return faults + [
            f"{record.body.decode()} came {early_ms} ms early"
            for record in found
            if (early_ms := self.due_ms.get(record.body.decode(), 0) - record.store_time_ms) > 0
        ]


@pytest.mark.parametrize(
    ("kind", "flush", "conf"),
    [
        ("delay levels", "SYNC_FLUSH", {"flushDelayOffsetInterval": 60_000}),
        ("delay levels", "ASYNC_FLUSH", {"flushDelayOffsetInterval": 10}),
        ("timers", "SYNC_FLUSH", {}),
        ("timers", "ASYNC_FLUSH", {}),
    ],
)
async def test_kills_while_messages_are_delivered(
    tmp_path: Path, kind: str, flush: str, conf: dict[str, object]
) -> None:
    conf = {"messageDelayLevel": "1s 2s", "maxHashSlotNum": 100, "maxIndexNum": 1_000, **conf}
    with Row(25, f"{kind}, kill -9 while they are delivered, {flush}", trimmed=3, full=250) as row:
        firsts = iter(range(0, row.count, FOLDER_KILLS))
        async with asyncio.TaskGroup() as group:
            for _ in range(BROKERS):
                group.create_task(kill_again_and_again(row, firsts, tmp_path, flush, conf, timers=kind == "timers"))


async def kill_again_and_again(
    row: Row, firsts: Iterator[int], folder: Path, flush: str, conf: dict[str, object], *, timers: bool
) -> None:
    """One broker at a time, as long as there are numbers left."""
    for first in firsts:
        if row.violations:
            return
        sent = Sent(timers)
        with WarmBroker(folder / str(first), [], flush=flush, conf=conf) as broker:
            channel = await connect(broker.addr)
            for _ in range(first, min(first + FOLDER_KILLS, row.count)):
                await sent.more(channel, row)
                enough = row.chance.randrange(await end_of(channel, TOPIC, 0), len(sent.due_ms))
                delivered = await await_delivered(channel, enough)
                broker.kill()
                row.add(waiting_at_kills=len(sent.due_ms) - delivered)
                channel.close()
                await asyncio.to_thread(start_again, broker, row)
                channel = await connect(broker.addr)
                row.step()
            with contextlib.suppress(TimeoutError):  # then the judge says which are missing
                await await_delivered(channel, len(sent.due_ms))
            row.violations += [f"kills from {first} on: {fault}" for fault in await sent.judge(channel)]
            row.add(messages=len(sent.due_ms))
            channel.close()
            broker.kill()


async def end_of(channel: Channel, topic: str, queue_id: int) -> int:
    try:
        return int((await channel.call(GetMaxOffset(topic, queue_id), timeout_ms=30_000)).ext["offset"])
    except PeerRefused:  # the topic is made by its first message
        return 0


async def await_delivered(channel: Channel, count: int) -> int:
    async with asyncio.timeout(DELIVERED_WITHIN_S):
        while (end := await end_of(channel, TOPIC, 0)) < count:  # noqa: ASYNC110 (another process has no event)
            await asyncio.sleep(0.002)
    return end


async def read_all(channel: Channel, topic: str, queue_id: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < await end_of(channel, topic, queue_id):
        request = PullMessage(GROUP, topic, queue_id, len(found), 32, 4, 0, 0, 0, subscription="*")
        found += decode_records(bytes((await channel.call(request, timeout_ms=30_000)).body), check_crc=True)
    return found
