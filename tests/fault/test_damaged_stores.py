"""Row 18: a store is damaged after a kill; the other broker recovers it, and the first opens what that has written.

What both must survive, damage by damage, alone: everything is served as before, byte for byte, every key and time finds
what it should, consumers go on where they were, and what is sent next gets the next offsets. Of a torn tail nothing is
missing but what was torn.

After a kill the original makes good only what its checkpoint lets it read again: the last files of the log. So what it
must recover stands in one; what CometMQ must recover, in several. What the original loses of several is not lost for
good: the log has it.
"""

from __future__ import annotations

import shutil
import struct
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.differential.exchange import (
    Served,
    await_offsets_on_disk,
    broker_of,
    fill,
    messages_of,
    served,
)
from tests.original import CometNamesrv

from cometmq.cli import main
from cometmq.wire.record import decode_record

from .harness import damaged_store
from .harness.damaged_store import SPOILS, TEARS
from .harness.rows import Row, share

pytestmark = pytest.mark.timeout(300)

OTHER = {"java": "comet", "comet": "java"}
SOON: dict[str, object] = {  # the checkpoint follows
    "flushCommitLogThoroughInterval": 200,
    "flushConsumeQueueThoroughInterval": 200,
    "flushIntervalConsumeQueue": 100,
}
COUNTS = {"java": 420, "comet": 120}  # by the first
TORN, MORE = 40, 20
AWAIT_S = 30.0
TORN_TAILS = [f"tail torn, {behind} behind" for behind in TEARS]
KINDS = [*TORN_TAILS, *SPOILS]
LOST = {"queues": r"records differ|the queues end at", "index": "is not in the index"}
"""How it shows that the original has lost a part of these."""
TRIMMED = ["tail torn, later records behind", "queues of garbage"]  # one made by each


@pytest.mark.parametrize("kind", KINDS if share() is not None else TRIMMED)
def test_a_damaged_store_passes_to_the_other_and_back(kind: str, tmp_path: Path) -> None:
    with (
        CometNamesrv(tmp_path / "namesrv") as namesrv,
        Row(18, f"damaged stores passed to the other and back, {kind}", trimmed=1, full=4) as row,
    ):
        for number in row.each():
            first = ("comet", "java")[(number + KINDS.index(kind)) % 2]
            found = pass_on(kind, first, tmp_path / str(number), [namesrv.addr], row.chance)
            row.violations += [f"made by {first}: {fault}" for fault in found]


@pytest.mark.parametrize("kind", [kind for kind in SPOILS if kind.split()[0] in LOST])
def test_what_the_original_loses_of_several_files_is_brought_back(kind: str, tmp_path: Path) -> None:
    with Row(18, f"what the original loses brought back, {kind}", trimmed=0, full=1) as row:
        for number in row.each():
            with CometNamesrv(tmp_path / "namesrv") as namesrv:
                row.violations += bring_back(kind, tmp_path / str(number), [namesrv.addr], row.chance)


def bring_back(kind: str, folder: Path, namesrv: list[str], chance: Random) -> list[str]:
    store, count = folder / "store", COUNTS["java"]
    brokers = {kind: broker_of(kind, folder, store, namesrv, **SOON) for kind in OTHER}
    with brokers["comet"] as broker:
        fill(broker, 0, count)
        before = served(broker, messages_of(count))
        await_offsets_on_disk(store, before.committed)
        await_synced(store, before)
        broker.kill()
    SPOILS[kind](store, chance)
    with brokers["java"] as broker:
        with pytest.raises(AssertionError, match=LOST[kind.split()[0]]):
            assert before.differences(served(broker, messages_of(count))) == []
        broker.kill()
    if kind.startswith("index"):
        shutil.rmtree(store / "index")
    elif main(["store", "repair", str(store), "-c", str(brokers["comet"].conf), "--apply"]) != 0:
        return ["`cometmq store repair` did not mend it"]
    with brokers["comet"] as broker:
        now = served(broker, messages_of(count))
        broker.kill()
    return [*before.differences(now), *now.wrong_searches()]


def pass_on(kind: str, first: str, folder: Path, namesrv: list[str], chance: Random) -> list[str]:
    store = folder / "store"
    count = COUNTS[first]
    with broker_of(first, folder, store, namesrv, **SOON) as broker:
        fill(broker, 0, count)
        before = served(broker, messages_of(count))
        await_offsets_on_disk(store, before.committed)
        checkpoint = await_synced(store, before)
        end = damaged_store.end_of_log(store)
        if kind in TORN_TAILS:
            fill(broker, count, TORN, commit=False)
            served(broker, messages_of(count + TORN))
        broker.kill()
    if kind in TORN_TAILS:
        (store / "checkpoint").write_bytes(checkpoint)
        damaged_store.tear(store, end, chance, TEARS[list(TEARS)[TORN_TAILS.index(kind)]])
    else:
        SPOILS[kind](store, chance)
    faults: list[str] = []
    for opener in (OTHER[first], first):
        with broker_of(opener, folder, store, namesrv, **SOON) as broker:
            now = served(broker, messages_of(count))
            found = [*replace(before, by_key={}).differences(now), *wrong_searches(now, opener, first)]
            fill(broker, count, MORE, commit=False)
            count += MORE
            before = served(broker, messages_of(count))
            found += [f"sent on: {fault}" for fault in wrong_searches(before, opener, first)]
            faults += [f"{opener}: {fault}" for fault in found]
            broker.kill()
    return faults


def wrong_searches(found: Served, opener: str, first: str) -> list[str]:
    """The original may find a message again that it recovers, and so does who comes after it."""
    return found.wrong_searches(again=int("java" in (opener, OTHER[first])))


def await_synced(store: Path, found: Served) -> bytes:
    """The checkpoint, once it says that all of this is on the disk."""
    newest_ms = max(decode_record(records[-1]).store_time_ms for records in found.records.values())
    deadline = time.monotonic() + AWAIT_S
    while True:
        data = (store / "checkpoint").read_bytes()
        if len(data) >= 48 and min(struct.unpack(">qq", data[:16])) >= newest_ms:
            return data
        assert time.monotonic() < deadline, "the checkpoint was not moved"
        time.sleep(0.05)
