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
    QUERIES_AT_ONCE,
    Served,
    await_offsets_on_disk,
    broker_of,
    fill,
    messages_of,
    served,
)
from tests.original import BrokerProcess, CometNamesrv

from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.query import QueryMessage

from .harness import delayed
from .harness.ledger import SEND_OK, Ledger
from .harness.rows import Row, share
from .harness.traffic import TIMEOUT_MS, Traffic

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
                found += asyncio.run(wrong_keys(broker, traffic, again=again))
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


async def wrong_keys(broker: BrokerProcess, traffic: Traffic, *, again: int) -> list[str]:
    """What was acknowledged is found by its key, each message once, but for so many that may be found `again`."""
    names = [name for name, promise in traffic.ledger.promised.items() if promise.status == SEND_OK]
    channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)

    async def bodies_of(name: str) -> list[str]:
        query = QueryMessage(topic=traffic.topic, key=name, max_num=8, begin_timestamp=0, end_timestamp=1 << 42)
        answer = await channel.exchange(query.command(), timeout_ms=TIMEOUT_MS)
        found = decode_records(bytes(answer.body)) if answer.code == ResponseCode.SUCCESS else []
        return [record.body.split(b".")[0].decode() for record in found]

    found: dict[str, list[str]] = {}
    for first in range(0, len(names), QUERIES_AT_ONCE):
        some = names[first : first + QUERIES_AT_ONCE]
        found.update(zip(some, await asyncio.gather(*map(bodies_of, some)), strict=True))
    channel.close()
    return wrongly_found(found, again=again)


def wrongly_found(found: dict[str, list[str]], *, again: int) -> list[str]:
    """Of the bodies that each name has found."""
    faults = [f"{name} finds {bodies}" for name, bodies in found.items() if set(bodies) != {name}]
    twice = [name for name, bodies in found.items() if bodies == [name, name]]
    more = [name for name, bodies in found.items() if len(bodies) > 2]
    return faults + [f"{name} is found more than once" for name in [*twice[again:], *more]]
