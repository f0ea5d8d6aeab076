"""Row 18: a store of one broker passes to the other and back to the first, after clean stops and kills under load.

What each writes the next serves, byte for byte: messages, offsets, consumed offsets, topics and groups; every key and
time finds what it should; the ledger has what was sent while the process was ended; messages for later arrive once. One
in five stores of the original begins with version 4.9.7.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.differential.exchange import (
    Served,
    await_offsets_on_disk,
    broker_of,
    fill,
    messages_of,
    served,
)
from tests.original import BrokerProcess, CometNamesrv

from .harness import delayed
from .harness.keys import wrong_keys
from .harness.ledger import Ledger
from .harness.rows import Row, share
from .harness.traffic import Traffic

pytestmark = pytest.mark.timeout(300)

OLDER = "of version 4.9.7"
KINDS: dict[str, dict[str, object]] = {
    "in ASYNC_FLUSH": {},
    "in SYNC_FLUSH": {"flushDiskType": "SYNC_FLUSH"},
    "with checksums of properties": {"enabledAppendPropCRC": True},
    "with addresses in its queues": {"enableConsumeQueueExt": True},
    OLDER: {},
}
IN_ORDER: dict[str, object] = {"sendMessageThreadPoolNums": 1}  # more threads take what is in flight in any order
STOPS = ("clean", "kill")
COUNTS = range(20, 401, 20)
LATER = 7


class Fixture(NamedTuple):
    """A store, who makes it, how that one leaves it, and how the other does."""

    kind: str
    first: str
    first_stop: str
    second_stop: str

    def __str__(self) -> str:
        return f"a store {self.kind}, made by {self.first}, {self.first_stop}, then {self.second_stop}"


FIXTURES = {
    "java": [Fixture(kind, "java", *stops) for kind in KINDS for stops in itertools.product(STOPS, STOPS)],
    "comet": [
        Fixture(kind, "comet", *stops) for kind in KINDS if kind != OLDER for stops in itertools.product(STOPS, STOPS)
    ],
}
OTHER = {"java": "comet", "comet": "java"}
NAMES = {"java": "Apache RocketMQ", "comet": "CometMQ"}


@pytest.mark.parametrize("first", FIXTURES)
def test_a_store_passes_to_the_other_and_back(first: str, tmp_path: Path) -> None:
    fixtures = FIXTURES[first]
    with (
        CometNamesrv(tmp_path / "namesrv") as namesrv,
        Row(18, f"stores passed to {NAMES[OTHER[first]]} and back", trimmed=1, full=len(fixtures)) as row,
    ):
        if share() is None:  # a clean stop of the original takes a quarter of a minute; tests/differential has some
            fixtures = [one for one in fixtures if (one.first_stop if first == "java" else one.second_stop) == "kill"]
        for number, fixture in zip(row.each(), row.chance.sample(fixtures, row.count), strict=False):
            faults = pass_on(fixture, tmp_path / str(number), [namesrv.addr], row)
            row.violations += [f"{fixture}: {fault}" for fault in faults]


def pass_on(fixture: Fixture, folder: Path, namesrv: list[str], row: Row) -> list[str]:
    folder.mkdir()
    store = folder / "store"
    traffic = Traffic(Ledger(folder / "ledger.jsonl"))
    later = delayed.Delayed(store)
    conf = {**KINDS[fixture.kind], **IN_ORDER, **delayed.CONF}
    first = "older java" if fixture.kind == OLDER else fixture.first
    stops = ((first, fixture.first_stop), (OTHER[fixture.first], fixture.second_stop), (fixture.first, None))
    faults: list[str] = []
    before: Served | None = None
    count, killed, again = 0, False, 0
    for kind, stop in stops:
        with broker_of(kind, folder, store, namesrv, **conf) as broker:
            if before is not None:
                again = max(again, int(kind == "java" and killed))
                now = served(broker, messages_of(count))
                found = [*replace(before, by_key={}).differences(now), *now.wrong_searches(again=again)]
                found += asyncio.run(traffic.check(broker.addr))
                found += asyncio.run(wrong_keys(broker.addr, traffic, again=again))
                found += asyncio.run(later.check(broker.addr))
                faults += [f"{kind}: {fault}" for fault in found]
            if stop is not None:
                more = row.chance.choice(COUNTS)
                fill(broker, count, more)
                count += more
                before = served(broker, messages_of(count), older=kind == "older java")
                faults += [f"{kind}, still running: {fault}" for fault in before.wrong_searches(again=again)]
                await_offsets_on_disk(store, before.committed)
                asyncio.run(stop_under_load(broker, stop, traffic, later, row.chance))
                killed = stop == "kill"
            broker.kill()  # where nobody looks: a clean stop of the original takes a quarter of a minute
    traffic.ledger.close()
    row.add(exchanged=messages_of(count), delayed=later.count, sent=traffic.sent, acknowledged=traffic.acknowledged)
    return faults


async def stop_under_load(
    broker: BrokerProcess, stop: str, traffic: Traffic, later: delayed.Delayed, chance: random.Random
) -> None:
    if later.count:
        await later.await_noted()
    await later.send(broker.addr, LATER)
    async with traffic.flowing(broker.addr):
        await asyncio.sleep(chance.uniform(0.2, 1.0))
        if stop == "kill":
            broker.kill()
    if stop == "clean":
        broker.stop()
