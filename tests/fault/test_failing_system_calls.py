"""Row 4 on real processes: a system call of the broker fails under load; then the broker dies and starts again.

Which call of each thread it is, and how it fails, is drawn. A broker may refuse to start, refuse sends or go on: what
it has acknowledged is there afterwards.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.original import ServerFailed

from .harness.ledger import Ledger
from .harness.restarting import start_again
from .harness.rows import Row
from .harness.traced_broker import CALLS, ERRORS, TracedBroker
from .harness.traffic import Traffic

pytestmark = pytest.mark.timeout(300)

CONF = {
    "mappedFileSizeCommitLog": 64 * 1024,
    "mappedFileSizeConsumeQueue": 100 * 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 500,
    "flushIntervalConsumeQueue": 30,
    "flushConsumeQueueThoroughInterval": 100,
}
LATEST = {"pwrite64": 20, "fdatasync": 15}  # the others are rare


@pytest.mark.parametrize(("flush", "named", "full"), [("SYNC_FLUSH", "", 200), ("ASYNC_FLUSH", ", ASYNC_FLUSH", 40)])
async def test_a_system_call_fails_under_load(tmp_path: Path, flush: str, named: str, full: int) -> None:
    with Row(4, f"a system call fails under load{named}", trimmed=1, full=full) as row:
        kinds: Counter[str] = Counter()
        for number in row.each():
            folder = tmp_path / str(number)
            broker, traffic = TracedBroker(folder, flush=flush, conf=CONF), Traffic(Ledger())
            call, error = CALLS[number % len(CALLS)], row.chance.choice(ERRORS)
            broker.fault = call, error, row.chance.randrange(1, LATEST.get(call, 3))
            try:
                broker.start()
            except ServerFailed:
                row.add(starts_refused=1)
            else:
                async with traffic.flowing(broker.addr):
                    await asyncio.sleep(row.chance.uniform(0.3, 1.0))
                    broker.kill()
            kinds[f"{call} {error}"] += await broker.was_injected()
            broker.fault = None
            start_again(broker, row)
            found = await traffic.check(broker.addr)
            row.violations += [f"case {number}, {call} {error}: {fault}" for fault in found]
            broker.kill()
            row.add(acknowledged=traffic.acknowledged, refused=sum(traffic.refusals.values()))
            shutil.rmtree(folder)
        row.numbers["injected"] = dict(kinds)
