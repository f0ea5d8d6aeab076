"""Row 25: transactions that nobody ends, while the broker is killed again and again.

Each is asked about as often as `transactionCheckMax` says by default and no more often, however many kills come
between; then it stands in the topic for those that were given up, once, and no consumer has seen it. Producers stay
silent, or answer that they do not know yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.unit.broker.transaction_kit import UNKNOWN, begin, checked, producer, stored

from cometmq.errors import PeerError
from cometmq.model import properties
from cometmq.model.names import CHECK_MAX_TIME_TOPIC
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.command import Command

from .harness.restarting import start_again
from .harness.rows import Row, share
from .harness.warm import WarmBroker

pytestmark = pytest.mark.timeout(300)

CHECKS_MAX = 15  # the default, which CONF leaves alone
CONF = {
    "transactionTimeOut": 200,
    "transactionCheckInterval": 100,
    "mappedFileSizeCommitLog": 1 << 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1_000,
}
BROKERS = 1 if share() is None else 4  # at a time
FOLDER_KILLS = 20
COUNT = 20  # transactions begun before each kill
GIVEN_UP_WITHIN_S = 60


class Undecided:
    """Begins transactions and never ends them; counts how often it is asked."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.asked: Counter[str] = Counter()

    async def begin(self, channel: Channel) -> None:
        first = len(self.begun)
        for key in [f"t{first + number}" for number in range(COUNT)]:
            await begin(channel, key)
            self.begun.add(key)

    async def hear(self, channel: Channel, checks: asyncio.Queue[Command]) -> None:
        """Every second answer is that nothing is decided; the others are silence."""
        while True:
            copy = checked(await checks.get())
            self.asked[copy.key] += 1
            if self.asked[copy.key] % 2:
                channel.notify(copy.end(UNKNOWN, checked=True))

    async def judge(self, channel: Channel, *, over: bool) -> list[str]:
        faults = [f"{key} was asked about {count} times" for key, count in self.asked.items() if count > CHECKS_MAX]
        faults += [f"{record.body.decode()} was seen by consumers" for record in await stored(channel)]
        given_up = await stored(channel, CHECK_MAX_TIME_TOPIC)
        for record in given_up:
            if record.properties.get(properties.TRANSACTION_CHECK_TIMES) != str(CHECKS_MAX):
                faults.append(f"{record.body.decode()} was given up with {record.properties}")
        times = Counter(record.body.decode() for record in given_up)
        faults += [f"{key} was given up {count} times" for key, count in times.items() if count > 1]
        faults += [f"{key} was never begun" for key in times.keys() - self.begun]
        return faults + [f"{key} was not given up" for key in sorted(self.begun - times.keys()) if over]


@pytest.mark.parametrize(("flush", "trimmed", "full"), [("SYNC_FLUSH", 3, 300), ("ASYNC_FLUSH", 2, 100)])
async def test_kills_until_transactions_are_given_up(tmp_path: Path, flush: str, trimmed: int, full: int) -> None:
    with Row(25, f"transactions nobody ends, kill -9 between checks, {flush}", trimmed=trimmed, full=full) as row:
        firsts = iter(range(0, row.count, FOLDER_KILLS))
        async with asyncio.TaskGroup() as group:
            for _ in range(BROKERS):
                group.create_task(kill_again_and_again(row, firsts, tmp_path, flush))


async def kill_again_and_again(row: Row, firsts: Iterator[int], folder: Path, flush: str) -> None:
    """One broker at a time, as long as there are numbers left."""
    for first in firsts:
        if row.violations:
            return
        with WarmBroker(folder / str(first), [], flush=flush, conf=CONF) as broker:
            undecided = Undecided()
            for kill in range(first, min(first + FOLDER_KILLS, row.count)):
                async with asking(broker, undecided) as channel:
                    await undecided.begin(channel)
                    await asyncio.sleep(row.chance.uniform(0.05, 1.0))
                    broker.kill()
                await asyncio.to_thread(start_again, broker, row)
                row.violations += [f"kill {kill}: {fault}" for fault in await look(broker, undecided)]
                row.step()
            async with asking(broker, undecided):
                await given_up(broker, undecided)
                broker.kill()
            await asyncio.to_thread(start_again, broker, row)
            async with asking(
                broker, undecided
            ) as channel:  # by the time these are given up, the others would be again
                await undecided.begin(channel)
                await given_up(broker, undecided)
            row.violations += [f"end of {first}: {fault}" for fault in await look(broker, undecided, over=True)]
            row.add(transactions=len(undecided.begun), checks=undecided.asked.total())
            broker.kill()


@contextlib.asynccontextmanager
async def asking(broker: WarmBroker, undecided: Undecided) -> AsyncIterator[Channel]:
    """While the block runs, or until the broker is gone, there is a producer to be asked."""
    channel, checks = await producer(broker.addr)
    hearing = asyncio.ensure_future(undecided.hear(channel, checks))
    try:
        yield channel
    finally:
        hearing.cancel()
        (ended,) = await asyncio.gather(hearing, return_exceptions=True)
        channel.close()
    if not isinstance(ended, PeerError | asyncio.CancelledError):
        raise AssertionError(f"the producer was ended by {ended!r}")


async def look(broker: WarmBroker, undecided: Undecided, *, over: bool = False) -> list[str]:
    channel = await connect(broker.addr)
    try:
        return await undecided.judge(channel, over=over)
    finally:
        channel.close()


async def given_up(broker: WarmBroker, undecided: Undecided) -> None:
    """Wait until all are; the judge says which are not."""
    channel = await connect(broker.addr)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GIVEN_UP_WITHIN_S):
            while len(await stored(channel, CHECK_MAX_TIME_TOPIC)) < len(undecided.begun):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    channel.close()
