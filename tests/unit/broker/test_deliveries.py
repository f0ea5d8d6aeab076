"""Deliveries of delayed messages where something is wrong: the clock, the store, the record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.state_kit import MemoryTable
from tests.unit.store.kit import HandClock, open_small

from cometmq.broker.delay.deliveries import SLEEP_MS_MAX, DelayedDeliveries
from cometmq.broker.delay.progress import GROWTH_MAX, DelayOffsets
from cometmq.broker.delay.stage import DelayStage
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.model import properties
from cometmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from cometmq.model.properties import DELIVERED_MARK, PROPERTIES_SIZE_MAX
from cometmq.wire.record import Record

DELAYS_MS = (1_000, 5_000)


class NoTurns:
    """In place of the loop's turns: the test says when they end."""

    def end_turn_soon(self) -> None:
        pass


class Bench:
    """A store and what delivers from it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = HandClock()
        self.table = MemoryTable("delayOffset.json")
        self.store = open_small(folder, clock=self.clock, message_delay_level="1s 5s", **settings)
        self.messages = InnerMessages(self.store, NoTurns())  # type: ignore[arg-type]
        self.messages.add_stage(DelayStage(len(DELAYS_MS)), properties.DELAY)
        self.start()

    def start(self) -> None:
        self.progress = DelayOffsets(self.table, self.store, self.clock, 200)
        self.deliveries = DelayedDeliveries(
            DELAYS_MS, self.store, self.messages, InnerReader(self.store), self.progress, self.clock
        )

    def put(self, level: int = 1, **found: str) -> None:
        self.messages.put(InnerMessage("orders", 0, b"later", {properties.DELAY: str(level), **found}))
        self.end_turn()

    def append(self, **found: str) -> None:
        """Straight into the queue of level 1, as a damaged or foreign store may have it."""
        self.store.append_delayed("1", SCHEDULE_TOPIC, 0, b"odd", properties.render(found).encode())
        self.end_turn()

    def end_turn(self) -> None:
        self.store.write()
        self.store.flush_log()
        self.store.dispatch()

    async def deliver(self, after_ms: int = 0) -> int | None:
        self.clock.ms += after_ms
        pause_ms = await self.deliveries.deliver_due()
        self.end_turn()
        return pause_ms

    async def delivered(self, topic: str = "orders") -> list[Record]:
        return (await InnerReader(self.store).read(topic, 0, 0, 32)).records


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_sleeps_until_the_first_is_due(bench: Bench) -> None:
    assert await bench.deliver() is None
    bench.put(level=2)
    assert await bench.deliver() == SLEEP_MS_MAX
    bench.put(level=1)
    assert await bench.deliver(900) == 100
    assert await bench.deliver(99) == 1
    assert await bench.delivered() == []
    assert await bench.deliver(1) == SLEEP_MS_MAX
    assert len(await bench.delivered()) == 1


async def test_a_clock_that_is_set_back(bench: Bench) -> None:
    bench.put()
    await bench.deliver()
    bench.clock.ms -= 3_600_000
    wall_ms, monotonic_ms = bench.clock.ms, bench.clock.ms
    bench.clock.monotonic_ms = lambda: monotonic_ms  # type: ignore[method-assign]
    bench.deliveries._levels[0].noticed_ms = monotonic_ms
    assert await bench.deliver() == SLEEP_MS_MAX
    monotonic_ms += 999
    assert await bench.deliver() == 1
    assert await bench.delivered() == []
    monotonic_ms += 1
    await bench.deliver()
    assert len(await bench.delivered()) == 1
    assert bench.clock.ms == wall_ms


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "orders", "REAL_QID": "-1"},
        {"REAL_TOPIC": "orders", "REAL_QID": "x"},
        {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"},
        {"REAL_TOPIC": SCHEDULE_TOPIC, "REAL_QID": "0"},
    ],
)
async def test_a_record_that_cannot_be_delivered_is_skipped(bench: Bench, found: dict[str, str]) -> None:
    bench.append(**found)
    bench.put()
    await bench.deliver(1_000)
    assert [record.body for record in await bench.delivered()] == [b"later"]
    assert await bench.delivered(HALF_TOPIC) == []
    assert bench.progress.to_json()["offsetTable"] == {1: 2}


async def test_a_message_without_room_for_the_mark(bench: Bench) -> None:
    taken = len(properties.render({"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "0", "fill": ""}))
    bench = Bench(Path(bench.store.config.store_path_root_dir + "-large"), mapped_file_size_commit_log=1 << 20)
    bench.put(fill="x" * (PROPERTIES_SIZE_MAX - taken))
    await bench.deliver(1_000)
    (record,) = await bench.delivered()
    assert DELIVERED_MARK not in record.properties
    assert len(record.properties_text) == PROPERTIES_SIZE_MAX


async def test_a_full_disk_stops_deliveries_and_loses_none(bench: Bench) -> None:
    bench.put()
    bench.put(level=2)
    bench.store._log.mark_disk("the disk is full")
    assert await bench.deliver(1_000) == SLEEP_MS_MAX
    assert bench.progress.to_json()["offsetTable"] == {1: 0, 2: 0}
    bench.store._log.mark_disk(None)
    await bench.deliver(5_000)
    assert len(await bench.delivered()) == 2


async def test_messages_that_expired_before_they_were_due(bench: Bench) -> None:
    for _ in range(40):
        bench.put(level=2)
    bench.store.maintain()
    first = bench.store._log.segments[0].path
    bench.clock.ms += 100 * 3_600_000
    os.utime(first, (0, 0))
    bench.store.delete_expired_by_hand()
    assert bench.store.clean_expired() == [first]
    left = bench.store.max_offset(SCHEDULE_TOPIC, 1) - bench.store.min_offset(SCHEDULE_TOPIC, 1)
    await bench.deliver()
    await bench.deliver()
    assert 0 < left < 40
    assert bench.store.max_offset("orders", 0) == left


async def test_progress_is_saved_only_when_it_is_on_the_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path, flush_disk_type="ASYNC_FLUSH")
    bench.put()
    bench.clock.ms += 1_000
    await bench.deliveries.deliver_due()
    bench.store.write()
    assert bench.progress.current == {1: 1}
    before = bench.progress.to_json()
    assert before["offsetTable"] == {1: 0}
    assert before["deliveredBefore"] < bench.store.written_offset
    bench.store.flush_log()
    after = bench.progress.to_json()
    assert (after["offsetTable"], after["deliveredBefore"]) == ({1: 1}, bench.store.written_offset)


async def test_a_log_that_grows_without_deliveries_moves_the_place_to_scan_from(bench: Bench) -> None:
    bench.progress.persist()
    bench.progress.note_growth()
    assert not bench.progress.persist()
    bench.progress._saved_at = -GROWTH_MAX - 1
    bench.progress.note_growth()
    assert bench.progress.persist()
