"""The timer against a dictionary in memory, with kills at every point: none early, none lost, none twice.

The clock may be set back, before a kill or after it.

Store, stage, wheel, timer log and checkpoint are the real ones; the steps say when bytes of the log are written,
flushed and made visible, and when the progress is saved, so that a kill can come between any two of them, and in the
middle of a turn of the timer. The window of the wheel is small, so that messages are rolled.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.store.kit import HandClock, QuickFs, open_small

from cometmq.broker.durability import Settle
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.timer import dequeue
from cometmq.broker.timer.metrics import TimerMetrics
from cometmq.broker.timer.service import TimerService
from cometmq.broker.timer.stage import TIME_KEYS, TimerStage
from cometmq.model import properties
from cometmq.store.config import ASYNC_FLUSH, SYNC_FLUSH
from cometmq.store.tables import TableFile
from cometmq.store.timer_files import TimerFiles

WINDOW_SLOTS = 12
LOG_FILE_SIZE = 52 * 7 + 30
TOPIC, QUEUE_ID = "orders", 1
STEPS_MS = st.sampled_from([1, 49, 50, 400, 999, 1_000, 3_500, 20_000])
DELAYS_MS = st.one_of(st.integers(1, 2_500), st.sampled_from([5_000, 11_999, 12_000, 15_999, 16_000, 40_000]))
TURN = st.sampled_from(["whole", "written", "cut"])  # how much of the end of a turn a kill leaves time for


class Killed(Exception):
    """In the middle of a turn of the timer."""


class Turns:
    """In place of the loop's turns: the test says when they end."""

    def __init__(self) -> None:
        self.promises: list[tuple[int, Settle]] = []

    def end_turn_soon(self) -> None:
        pass

    def when_safe(self, end_offset: int, settle: Settle) -> None:
        self.promises.append((end_offset, settle))

    def settle(self, safe_offset: int) -> None:
        while self.promises and self.promises[0][0] <= safe_offset:
            self.promises.pop(0)[1](None)


class TimerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.clock = HandClock()
        self.latest_ms = 0  # at which the clock was set back
        self.due_ms: dict[str, int] = {}  # of all that was written
        self.slots: dict[str, int] = {}
        self.unwritten: dict[str, int] = {}
        self.recalled: set[str] = set()
        self.maybe_recalled: set[str] = set()
        self.count = 0
        self.pauses_left = -1

    @initialize(flush=st.sampled_from([SYNC_FLUSH, ASYNC_FLUSH]))
    def open(self, flush: str) -> None:
        self.flush = flush
        dequeue.CHUNK = 3  # type: ignore[misc]
        self.loop.run_until_complete(self.start())

    async def start(self) -> None:
        self.store = open_small(
            self.root,
            QuickFs(),
            self.clock,
            flush_disk_type=self.flush,
            timer_roll_window_slot=WINDOW_SLOTS,
            timer_max_delay_sec=600,
        )
        root = self.store.config.store_path_root_dir
        self.turns = Turns()
        self.messages = InnerMessages(self.store, self.turns)  # type: ignore[arg-type]
        self.files = TimerFiles(QuickFs(), root, precision_ms=1000, log_file_size=LOG_FILE_SIZE)
        self.files.open(self.store.written_offset)
        table = TableFile(QuickFs(), f"{self.store.config.config_dir}/timermetrics")
        self.timer = TimerService(
            self.files,
            self.store,
            self.messages,
            InnerReader(self.store),
            self.turns,  # type: ignore[arg-type]
            TimerMetrics(table, self.clock),
            self.clock,
            pause=self.pause,
        )
        stage = TimerStage(
            self.store.config,
            self.clock,
            enabled=True,
            waiting_at=self.timer.waiting_at,
            on_recall=self.timer.recall,
        )
        self.messages.add_stage(stage, *TIME_KEYS)

    async def pause(self) -> None:
        self.pauses_left -= 1
        if not self.pauses_left:
            raise Killed

    # --- steps

    @rule(delay_ms=DELAYS_MS, count=st.integers(1, 10), how=st.sampled_from(TIME_KEYS[1:]), turn=TURN)
    def send(self, delay_ms: int, count: int, how: str, turn: str) -> None:
        for _ in range(count):
            self.count += 1
            name = str(self.count)
            time_ms = delay_ms if how == properties.TIMER_DELAY_MS else self.clock.ms + delay_ms
            found = {properties.UNIQ_KEY: name, how: str(time_ms)}
            self.messages.put(InnerMessage(TOPIC, QUEUE_ID, name.encode(), found))
            self.unwritten[name] = self.clock.ms + delay_ms
            self.slots[name] = int(found[properties.TIMER_OUT_MS])
        self.end_turn(turn)

    @rule(ms=STEPS_MS)
    def set_clock_back(self, ms: int) -> None:
        self.latest_ms = max(self.latest_ms, self.clock.ms)
        self.clock.ms -= ms

    def waiting(self) -> list[str]:
        """What cannot have been delivered yet."""
        return [name for name, slot_ms in self.slots.items() if slot_ms >= max(self.clock.ms, self.latest_ms)]

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), turn=TURN)
    def recall(self, data: st.DataObject, turn: str) -> None:
        name = data.draw(st.sampled_from(self.waiting()))
        found = {
            properties.UNIQ_KEY: name,
            properties.TIMER_DEL_UNIQKEY: name,
            properties.TIMER_DELIVER_MS: str(self.slots[name] + 1),
        }
        self.messages.put(InnerMessage(TOPIC, 0, b"0", found))
        self.maybe_recalled.add(name)
        self.end_turn(turn)
        if turn != "cut":
            self.recalled.add(name)

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
            self.turns.settle(self.store.written_offset)
            self.store.dispatch()

    @rule()
    def flush_log(self) -> None:
        safe_offset = self.store.flush_log()
        if self.flush == SYNC_FLUSH:
            self.turns.settle(safe_offset)
        self.store.dispatch()

    @rule(ms=STEPS_MS, turn=TURN)
    def turn(self, ms: int, turn: str) -> None:
        self.clock.ms += ms
        self.loop.run_until_complete(self.timer.turn())
        self.end_turn(turn)

    @rule()
    def make_ready_ahead(self) -> None:
        self.loop.run_until_complete(self.timer.make_ready_ahead())

    @rule(ms=STEPS_MS, pauses=st.integers(1, 5), turn=TURN)
    def kill_in_turn(self, ms: int, pauses: int, turn: str) -> None:
        self.clock.ms += ms
        self.pauses_left = pauses
        try:
            self.loop.run_until_complete(self.timer.turn())
        except Killed:
            self.end_turn(turn)
            self.kill(saved=False)
        self.pauses_left = -1

    @rule()
    def save(self) -> None:
        self.loop.run_until_complete(self.timer.flush(thorough=True))

    @rule(saved=st.booleans())
    def kill(self, saved: bool) -> None:
        if saved:
            self.save()
        self.forget_unwritten()
        self.files.close()
        self.store.abandon()
        self.loop.run_until_complete(self.start())

    def forget_unwritten(self) -> None:
        for name in self.unwritten:
            del self.slots[name]
        self.unwritten.clear()

    @rule()
    def stop(self) -> None:
        """As the app stops: the timer ends, the log is flushed, the store closed."""
        self.end_turn("whole")
        self.loop.run_until_complete(self.timer.close())
        self.files.close()
        self.store.close()
        self.loop.run_until_complete(self.start())

    # --- what holds

    def delivered(self) -> list[tuple[str, int]]:
        async def read() -> list[tuple[str, int]]:
            found: list[tuple[str, int]] = []
            offset = 0
            while offset < self.store.max_offset(TOPIC, QUEUE_ID):
                batch = await InnerReader(self.store).read(TOPIC, QUEUE_ID, offset)
                found += [(bytes(record.body).decode(), record.store_time_ms) for record in batch.records]
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
        assert not self.recalled & {name for name, _ in found}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.end_turn("whole")
            self.clock.ms = max(self.clock.ms, self.latest_ms)
            for _ in range(40):
                self.turn(2_000, "whole")
            found = {name for name, _ in self.delivered()}
            assert set(self.due_ms) - self.maybe_recalled <= found, "every message arrives"
            self.none_early_none_twice()
            self.files.close()
            self.store.close()
        self.loop.close()
        self.folder.cleanup()


TimerMachine.TestCase.settings = settings(
    max_examples=50, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTimer: Any = TimerMachine.TestCase


def test_a_full_disk_delays_and_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer's files cannot be written for a while; then every message comes, once."""
    machine = TimerMachine()
    machine.open(ASYNC_FLUSH)
    machine.send(1_500, 20, properties.TIMER_DELAY_MS, "whole")
    with monkeypatch.context() as full:
        full.setattr(QuickFs, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                machine.loop.run_until_complete(machine.timer.turn())
    machine.turn(2_000, "whole")
    machine.turn(50, "whole")  # what came late onto the wheel is in the next strip
    assert len(machine.delivered()) == 20
    machine.kill(saved=True)
    machine.teardown()


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_a_start_on_a_clock_that_was_set_back(*, saved: bool, half: bool) -> None:
    """What was delivered by the later time is not delivered again when that time comes back."""
    machine = TimerMachine()
    machine.open(ASYNC_FLUSH)
    machine.send(1_500, 20, properties.TIMER_DELAY_MS, "whole")
    machine.turn(1_000, "whole")
    machine.turn(49, "whole")
    if half:
        machine.kill_in_turn(1_000, 3, "written")
        assert 0 < len(machine.delivered()) < 20
    else:
        machine.turn(3_500, "whole")
        machine.turn(50, "whole")
        assert len(machine.delivered()) == 20
    machine.set_clock_back(20_000)
    machine.turn(1, "whole")
    machine.kill(saved=saved)
    machine.send(1_500, 20, properties.TIMER_DELAY_MS, "whole")
    for _ in range(2):
        machine.turn(1, "whole")
        machine.turn(1, "whole")
        machine.kill(saved=saved)
    machine.teardown()
