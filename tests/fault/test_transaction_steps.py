"""Row 25: a broker process is killed again and again while transactions begin, end and are checked.

Whatever the kill interrupts, what the producer has decided happens: each committed message is seen once, a rolled back
one never, and no half message is ever seen. Transactions that nobody ends, delay levels and timers have tests of their
own beside this one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.transaction_kit import COMMIT, ROLLBACK, UNKNOWN, Begun, begin, checked, producer, stored

from cometmq.errors import PeerError
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.command import Command

from .harness.restarting import start_again
from .harness.rows import Row, share
from .harness.warm import WarmBroker

pytestmark = pytest.mark.timeout(300)

CONF = {
    "transactionTimeOut": 300,
    "transactionCheckInterval": 200,
    "transactionCheckMax": 1_000,
    "mappedFileSizeCommitLog": 1 << 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1_000,
}
FOLDER_KILLS = 40
BROKERS = 1 if share() is None else 4  # at a time
AT_ONCE = 6


class Trader:
    """Begins and ends transactions, and answers checks; it remembers what it has decided and what it was told."""

    def __init__(self) -> None:
        self.count = 0
        self.begun: set[str] = set()  # the broker has answered for these
        self.checks = 0

    @staticmethod
    def verdict(key: str) -> int:
        return COMMIT if int(key[1:]) % 3 else ROLLBACK

    async def trade(self, channel: Channel) -> None:
        """One after the other, until the broker is gone: some end at once, some are left to a check."""
        while True:
            key = f"t{self.count}"
            self.count += 1
            begun = await begin(channel, key)
            self.begun.add(key)
            if int(key[1:]) % 4:
                await channel.call(begun.end(self.verdict(key)), timeout_ms=30_000)

    async def answer(self, channel: Channel, asked: asyncio.Queue[Command]) -> None:
        """Checks are answered in doubt the first time now and then, so that they come again."""
        while True:
            copy: Begun = checked(await asked.get())
            self.checks += 1
            if self.checks % 5 == 0:
                channel.notify(copy.end(UNKNOWN, checked=True))  # nobody answers that
            else:
                await channel.call(copy.end(self.verdict(copy.key), checked=True), timeout_ms=30_000)

    def judge(self, found: list[str], *, over: bool) -> list[str]:
        counts = Counter(found)
        faults = [f"{key} was seen {count} times" for key, count in counts.items() if count > 1]
        faults += [f"{key} was rolled back and seen" for key in counts if self.verdict(key) == ROLLBACK]
        if over:
            committed = {key for key in self.begun if self.verdict(key) == COMMIT}
            faults += [f"{key} was committed and is not seen" for key in sorted(committed - counts.keys())]
        return faults


@pytest.mark.parametrize(("flush", "trimmed", "full"), [("SYNC_FLUSH", 4, 1_000), ("ASYNC_FLUSH", 1, 200)])
async def test_kills_while_transactions_are_made(tmp_path: Path, flush: str, trimmed: int, full: int) -> None:
    with Row(25, f"transactions, kill -9 at any step, {flush}", trimmed=trimmed, full=full) as row:
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
            trader, chance = Trader(), row.chance_of(first)
            for kill in range(first, min(first + FOLDER_KILLS, row.count)):
                await trade_and_kill(broker, trader, chance.uniform(0.05, 1.0))
                await asyncio.to_thread(start_again, broker, row)
                row.violations += [f"kill {kill}: {fault}" for fault in await look(broker, trader)]
                row.step()
            row.violations += [f"end of {first}: {fault}" for fault in await finish(broker, trader)]
            row.add(transactions=len(trader.begun), checks=trader.checks)
            broker.kill()


async def trade_and_kill(broker: WarmBroker, trader: Trader, after_s: float) -> None:
    member, asked = await producer(broker.addr)
    channels = [await connect(broker.addr) for _ in range(AT_ONCE)]
    tasks = [asyncio.ensure_future(trader.trade(channel)) for channel in channels]
    tasks.append(asyncio.ensure_future(trader.answer(member, asked)))
    await asyncio.sleep(after_s)
    broker.kill()
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(ended, (PeerError, asyncio.CancelledError)):
            raise AssertionError(f"a producer was ended by {ended!r}")
    for channel in [member, *channels]:
        channel.close()


async def look(broker: WarmBroker, trader: Trader) -> list[str]:
    channel = await connect(broker.addr)
    found = [record.body.decode() for record in await stored(channel)]
    channel.close()
    return trader.judge(found, over=False)


async def finish(broker: WarmBroker, trader: Trader) -> list[str]:
    """Answer checks until all that was committed is seen, and a little longer."""
    member, asked = await producer(broker.addr)
    channel = await connect(broker.addr)
    answering = asyncio.ensure_future(trader.answer(member, asked))
    wanted = {key for key in trader.begun if trader.verdict(key) == COMMIT}
    found: list[str] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            while not wanted <= set(found) and not answering.done():
                await asyncio.sleep(0.1)
                found = [record.body.decode() for record in await stored(channel)]
    quiet = -1
    while quiet != trader.checks:  # rounds of checks, until one asks nothing
        quiet = trader.checks
        await asyncio.sleep(1.0)
    found = [record.body.decode() for record in await stored(channel)]
    if answering.done():
        return [f"the producer that is asked was ended by {answering.exception()!r}"]
    answering.cancel()
    await asyncio.gather(answering, return_exceptions=True)
    member.close()
    channel.close()
    return trader.judge(found, over=True)
