"""A sender at an even pace, and a reader that goes on whatever happens to the sends: every wait and refusal is noted.

async with reading(traffic, broker.addr, chance) as reader:
    async with sending(traffic, channel) as codes: …
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode

from .ledger import Queue
from .traffic import TIMEOUT_MS, Traffic, ask_for

SENDS_AT_ONCE: Final = 5
SENDS_EVERY_S: Final = 0.02
PULLS_EVERY_S: Final = 0.01
NOTHING_THERE: Final = (0, int(ResponseCode.PULL_NOT_FOUND))


class Reader:
    """Pulls from anywhere in what it has seen, and at the end, in turns."""

    def __init__(self, traffic: Traffic, chance: random.Random) -> None:
        self._traffic = traffic
        self._chance = chance
        self._ends: dict[Queue, int] = dict.fromkeys(traffic.queues, 0)
        self.waits_s: list[float] = []
        self.faults: list[str] = []
        self._pulled = asyncio.Event()

    async def run(self, channel: Channel) -> None:
        try:
            while True:
                queue = self._chance.choice(self._traffic.queues)
                end = self._ends[queue]
                at_end = not end or self._chance.random() < 0.5
                await self._pull(channel, queue, end if at_end else self._chance.randrange(end), at_end=at_end)
                self._pulled.set()
                await asyncio.sleep(PULLS_EVERY_S)
        except Exception as fault:
            self.faults.append(f"after {len(self.waits_s)} pulls the reader was ended by {fault!r}")
            self._pulled.set()

    async def _pull(self, channel: Channel, queue: Queue, offset: int, *, at_end: bool) -> None:
        began = time.monotonic()
        code, found = await ask_for(channel, queue, offset)
        self.waits_s.append(time.monotonic() - began)
        if code not in NOTHING_THERE or not (found or at_end):
            self.faults.append(f"a pull of {queue} at {offset} was answered {code} with {len(found)} messages")
        if found:
            self._traffic.violations += self._traffic.ledger.see(queue, found)
            self._ends[queue] = max(self._ends[queue], found[-1].offset + 1)

    async def has_pulled(self, count: int) -> None:
        """Until there were so many pulls more, or one that failed."""
        wanted = len(self.waits_s) + count
        while len(self.waits_s) < wanted and not self.faults:
            self._pulled.clear()
            await self._pulled.wait()


@asynccontextmanager
async def reading(traffic: Traffic, address: str, chance: random.Random) -> AsyncIterator[Reader]:
    """Read until the block ends."""
    reader = Reader(traffic, chance)
    channel = await connect(address, timeout_ms=TIMEOUT_MS)
    task = asyncio.create_task(reader.run(channel))
    try:
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        channel.close()


@asynccontextmanager
async def sending(traffic: Traffic, channel: Channel) -> AsyncIterator[Counter[int]]:
    """Send until the block ends, whatever is answered, and wait for the last answers; counts their codes."""
    codes: Counter[int] = Counter()
    under_way: set[asyncio.Task[int]] = set()

    def answered(task: asyncio.Task[int]) -> None:
        under_way.discard(task)
        codes[task.result()] += 1

    async def send() -> None:
        while True:
            for _ in range(SENDS_AT_ONCE):
                task = asyncio.create_task(traffic.send(channel))
                under_way.add(task)
                task.add_done_callback(answered)
            await asyncio.sleep(SENDS_EVERY_S)

    sender = asyncio.create_task(send())
    try:
        yield codes
    finally:
        sender.cancel()
        await asyncio.gather(sender, *under_way, return_exceptions=True)


def p99_ms(waits_s: Sequence[float]) -> float:
    return round(sorted(waits_s)[math.ceil(len(waits_s) * 0.99) - 1] * 1000, 2)


def resident_mib(pid: int) -> tuple[float, float]:
    """Memory of a process: its own, and with the files that it maps."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    own, whole = (int(fields[name].split()[0]) / 1024 for name in ("RssAnon", "VmRSS"))
    return round(own, 1), round(whole, 1)
