"""Delay levels against a list in memory, with kills at every point: none early, none lost, none twice.

The store, the stages, the deliveries and the table are the real ones; the steps say when bytes are written, flushed and
made visible, and when the table is saved, so that a kill can come between any two of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.store.kit import HandClock, QuickFs, open_small

from cometmq.broker.delay.deliveries import DelayedDeliveries
from cometmq.broker.delay.progress import DelayOffsets
from cometmq.broker.delay.stage import DelayStage
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.model import properties
from cometmq.store.config import ASYNC_FLUSH, SYNC_FLUSH
from cometmq.store.tables import TableFile

DELAYS_MS = (1_000, 5_000, 10_000)
LEVELS = "1s 5s 10s"
TOPIC, QUEUE_ID = "orders", 1
TURN = st.sampled_from(["whole", "written", "cut"])  # how much of the end of a turn a kill leaves time for


class NoTurns:
    """In place of the loop's turns: the test says when they end."""

    def end_turn_soon(self) -> None:
        pass


class DelayMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.clock = HandClock()
        self.due_ms: dict[str, int] = {}  # of all that was written
        self.unwritten: dict[str, int] = {}
        self.count = 0

    @initialize(flush=st.sampled_from([SYNC_FLUSH, ASYNC_FLUSH]))
    def open(self, flush: str) -> None:
        self.flush = flush
        self.start()

    def start(self) -> None:
        self.store = open_small(
            self.root, QuickFs(), self.clock, flush_disk_type=self.flush, message_delay_level=LEVELS
        )
        self.messages = InnerMessages(self.store, NoTurns())  # type: ignore[arg-type]
        self.messages.add_stage(DelayStage(len(DELAYS_MS)), properties.DELAY)
        table = TableFile(QuickFs(), f"{self.store.config.config_dir}/delayOffset.json")
        self.progress = DelayOffsets(table, self.store, self.clock, 200)
        self.deliveries = DelayedDeliveries(
            DELAYS_MS, self.store, self.messages, InnerReader(self.store), self.progress, self.clock
        )

    # --- steps

    @rule(level=st.integers(0, 5), count=st.integers(1, 40), turn=TURN)
    def send(self, level: int, count: int, turn: str) -> None:
        for _ in range(count):
            self.count += 1
            name = str(self.count)
            found = {"ID": name, properties.DELAY: str(level)}
            placed = self.messages.put(InnerMessage(TOPIC, QUEUE_ID, name.encode(), found))
            delay_ms = DELAYS_MS[min(level, len(DELAYS_MS)) - 1] if level else 0
            self.unwritten[name] = placed.store_time_ms + delay_ms
        self.end_turn(turn)

    def end_turn(self, turn: str) -> None:
        if turn != "cut":
            self.write()
        if turn == "whole":
            self.flush_log()

    @rule()
    def write(self) -> None:
        self.store.write()
        self.due_ms.update(self.unwritten)
        self.unwritten.clear()
        if self.flush == ASYNC_FLUSH:
            self.store.dispatch()

    @rule()
    def flush_log(self) -> None:
        self.store.flush_log()
        self.store.dispatch()

    @rule(ms=st.sampled_from([1, 999, 1_000, 5_000, 20_000]), turn=TURN)
    def deliver(self, ms: int, turn: str) -> None:
        self.clock.ms += ms
        self.loop.run_until_complete(self.deliveries.deliver_due())
        self.end_turn(turn)

    @rule()
    def save(self) -> None:
        self.progress.persist()

    @rule(saved=st.booleans())
    def kill(self, saved: bool) -> None:
        if saved:
            self.progress.persist()
        self.unwritten.clear()
        self.store.abandon()
        self.start()

    @rule(ms=st.sampled_from([1_000, 20_000]), turn=TURN, saved=st.booleans())
    def deliver_and_die(self, ms: int, turn: str, saved: bool) -> None:
        self.deliver(ms, turn)
        self.kill(saved)

    @rule()
    def stop(self) -> None:
        """As the app stops: the log is flushed, the table saved, the store closed."""
        self.write()
        self.flush_log()
        self.progress.persist()
        self.store.close()
        self.start()

    @rule(level=st.integers(1, 3))
    def marks_and_new_ones_in_one_step(self, level: int) -> None:
        """Killed between two deliveries of a level, then again while what followed the first is not flushed."""
        self.send(level, 3, "whole")
        self.deliver(20_000, "written")
        self.send(level, 3, "whole")
        self.clock.ms += 20_000
        self.kill(False)
        self.deliver(1, "written")
        self.kill(True)
        self.deliver(1, "whole")

    # --- what holds

    def delivered(self) -> list[tuple[str, int]]:
        async def read() -> list[tuple[str, int]]:
            found: list[tuple[str, int]] = []
            offset = 0
            while offset < self.store.max_offset(TOPIC, QUEUE_ID):
                batch = await InnerReader(self.store).read(TOPIC, QUEUE_ID, offset)
                found += [(record.properties["ID"], record.store_time_ms) for record in batch.records]
                offset = batch.next_offset
            return found

        return self.loop.run_until_complete(read())

    @invariant()
    def none_early_none_twice(self) -> None:
        if not hasattr(self, "store"):
            return
        found = self.delivered()
        twice = {name: count for name, count in Counter(name for name, _ in found).items() if count > 1}
        assert not twice
        assert not {name: time_ms for name, time_ms in found if time_ms < self.due_ms[name]}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.end_turn("whole")
            self.deliver(20_000, "whole")
            assert {name for name, _ in self.delivered()} == set(self.due_ms), "every message arrives"
            self.store.close()
        self.loop.close()
        self.folder.cleanup()


DelayMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestDelays: Any = DelayMachine.TestCase
