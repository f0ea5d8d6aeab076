"""Row 4 on real processes: a system call of the broker fails under load; then the broker dies and starts again.

Which call of each thread it is, and how it fails, is drawn. Most fail while messages flow and tables change, some from
the start of the process on: a broker may then refuse to start. It may refuse sends or go on: what it has acknowledged
is there afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.original import ServerFailed

from cometmq.errors import PeerError
from cometmq.net.pool import connect
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.consume import UpdateConsumerOffset

from .harness.ledger import Ledger
from .harness.restarting import start_again
from .harness.rows import Row
from .harness.traced_broker import CALLS, Fault, TracedBroker, kinds
from .harness.traffic import TOPIC, Traffic

pytestmark = pytest.mark.timeout(300)

CONF = {
    "mappedFileSizeCommitLog": 64 * 1024,
    "mappedFileSizeConsumeQueue": 100 * 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 500,
    "flushIntervalConsumeQueue": 30,
    "flushConsumeQueueThoroughInterval": 100,
    "flushConsumerOffsetInterval": 50,
}
# Files go only where they are old, and many pieces are written at once only where they make a mebibyte.
CONF_OF = {
    "unlink": {"fileReservedTime": 0, "deleteWhen": ";".join(map(str, range(24))), "cleanResourceInterval": 20},
    "pwritev": {"mappedFileSizeCommitLog": 8 << 20},
}
LARGE = 1_200_000
LATEST = {"pwrite64": 20, "fdatasync": 15}  # the others are rarer
FROM_START_EVERY = 5
INJECTED_WITHIN_S = 20.0
UNDER_LOAD_MIN = 0.9


@pytest.mark.parametrize(("flush", "named", "full"), [("SYNC_FLUSH", "", 200), ("ASYNC_FLUSH", ", ASYNC_FLUSH", 40)])
async def test_a_system_call_fails_under_load(tmp_path: Path, flush: str, named: str, full: int) -> None:
    with Row(4, f"a system call fails under load{named}", trimmed=1, full=full) as row:
        drawn = kinds()
        row.chance.shuffle(drawn)
        attached = 0
        injected: Counter[str] = Counter()
        calls_under_load: Counter[str] = Counter()
        for number in row.each():
            call, error = drawn[number % len(drawn)]
            fault = Fault(call, error, row.chance.randrange(1, LATEST.get(call, 4)))
            folder = tmp_path / str(number)
            broker = TracedBroker(folder, flush=flush, conf={**CONF, **CONF_OF.get(call, {})})
            traffic = Traffic(Ledger(), size=LARGE, in_flight_max=4) if call == "pwritev" else Traffic(Ledger())
            if (number + 1) % FROM_START_EVERY:
                found = await under_load(broker, traffic, fault, row.chance.uniform(0.1, 0.5))
                calls_under_load[call] += found
                attached += 1
            else:
                found = await from_start(row, broker, traffic, fault)
            injected[f"{call} {error}"] += found
            broker.fault = None
            broker.write_conf(broker.namesrv, flush, "broker-a", {**CONF, **large_segments(call)})  # nothing goes now
            start_again(broker, row)
            faults = await traffic.check(broker.addr, expired=call == "unlink")
            row.violations += [f"case {number}, {call} {error}: {one}" for one in faults]
            broker.kill()
            row.add(acknowledged=traffic.acknowledged, refused=sum(traffic.refusals.values()))
            shutil.rmtree(folder)
        row.numbers["injected"] = dict(sorted(injected.items()))
        row.numbers["under_load"] = dict(sorted(calls_under_load.items()))
        if calls_under_load.total() < UNDER_LOAD_MIN * attached:
            row.violations.append(f"of {attached} calls only {calls_under_load.total()} failed under load")
        if row.count == full:
            row.violations += [f"no {call} failed under load" for call in CALLS if not calls_under_load[call]]


def large_segments(call: str) -> dict[str, object]:
    return CONF_OF[call] if call == "pwritev" else {}


async def under_load(broker: TracedBroker, traffic: Traffic, fault: Fault, lives_on_s: float) -> bool:
    """The call fails while messages flow; whether it came to that."""
    broker.start()
    async with traffic.flowing(broker.addr), tables_changing(broker.addr):
        await traffic.grows()
        async with broker.failing(fault):
            await broker.await_injected(INJECTED_WITHIN_S)
            await asyncio.sleep(lives_on_s)
    return broker.injected


async def from_start(row: Row, broker: TracedBroker, traffic: Traffic, fault: Fault) -> bool:
    """The call fails from the start on, which may end the start."""
    broker.fault = fault
    try:
        broker.start()
    except ServerFailed:
        row.add(starts_refused=1)
    else:
        async with traffic.flowing(broker.addr), tables_changing(broker.addr):
            await asyncio.sleep(row.chance.uniform(0.3, 1.0))
            broker.kill()
    return await broker.was_injected()


@asynccontextmanager
async def tables_changing(address: str) -> AsyncIterator[None]:
    """Offsets are committed and topics made, until the block ends or the broker does."""

    async def change() -> None:
        with contextlib.suppress(PeerError):
            channel = await connect(address)
            number = 0
            while channel.is_open:
                number += 1
                await channel.exchange(UpdateConsumerOffset(TOPIC, "readers", 0, number).command())
                await channel.exchange(CreateTopic(f"topic{number}", 1, 1, 6, "SINGLE_TAG", "TBW102").command())
                await asyncio.sleep(0.05)

    changing = asyncio.create_task(change())
    try:
        yield
    finally:
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)
