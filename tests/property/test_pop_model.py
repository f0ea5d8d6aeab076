"""The ledger of pop against a small model: pop, acknowledge, ask for time, wait, save, kill, stop and go on.

Of each message the model knows the receipt that counts. Promised are:
- a message is not handed out again before its time, nor after a sure acknowledgement;
- every message is handed out until somebody acknowledges it for sure.
A kill takes the first promise from messages whose handing out or revival was not saved yet, and only from those.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.broker.pop_kit import GROUP, QUEUES, TOPIC, Handed, PopKit, handed_by

from cometmq.broker.pop.revive import PENDING_MAX

LATE_MS = 4_500  # revival comes so much later at most: two seconds for late acknowledgements, and some steps


@dataclass
class Known:
    """What the model knows of one message."""

    holder: Handed | None = None
    place: tuple[str, int, int] | None = None  # topic, queue id and offset of the last handing out
    visible_ms: int = 0
    is_done: bool = False
    may_repeat: bool = False  # a kill came before its last handing out, or its revival, was saved


class PopMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.known: dict[str, Known] = {}
        self.sent = 0
        self.unsaved: set[str] = set()  # handed out since the last save
        self.kit: PopKit | None = None

    @initialize(merge=st.booleans(), pending_max=st.sampled_from([1, 2, 3, PENDING_MAX]))
    def open(self, merge: bool, pending_max: int) -> None:
        config: dict[str, Any] = {"revive_queue_num": 2, "pop_from_retry_probability": 50}
        self.kit = PopKit(Path(self.folder.name), pending_max=pending_max, enable_pop_buffer_merge=merge, **config)
        self.loop.run_until_complete(self.kit.start())

    @property
    def pop_kit(self) -> PopKit:
        assert self.kit is not None
        return self.kit

    def held(self) -> list[str]:
        return sorted(name for name, one in self.known.items() if one.holder is not None)

    # --- steps

    @rule(queue_id=st.integers(0, QUEUES - 1), count=st.integers(1, 5))
    def send(self, queue_id: int, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            self.known[str(self.sent)] = Known()
            self.pop_kit.send(str(self.sent), queue_id)

    @rule(
        queue_id=st.integers(-1, QUEUES - 1),
        count=st.integers(1, 6),
        invisible_ms=st.sampled_from([0, 1_000, 3_000, 8_000, 20_000]),
    )
    def pop(self, queue_id: int, count: int, invisible_ms: int) -> None:
        for handed in self.pop_kit.pop(queue_id=queue_id, max_msg_nums=count, invisible_time=invisible_ms):
            self.take(handed, invisible_ms)

    def take(self, handed: Handed, invisible_ms: int) -> None:
        one, now_ms = self.known[handed.name], self.pop_kit.clock.ms
        if not one.may_repeat:
            assert not one.is_done, f"{handed.name} came back though it is done"
            assert now_ms >= one.visible_ms, f"{handed.name} came back {one.visible_ms - now_ms} ms early"
        one.holder, one.visible_ms = handed, now_ms + invisible_ms
        one.place = handed.topic, handed.queue_id, handed.offset
        self.unsaved.add(handed.name)

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.held()))
        self.acknowledge(name)

    def acknowledge(self, name: str) -> None:
        one = self.known[name]
        assert one.holder is not None
        reply = self.pop_kit.ack(one.holder)
        assert reply is not None and reply.code == 0
        if self.pop_kit.clock.ms <= one.visible_ms:
            one.is_done = True
        else:
            one.is_done = one.may_repeat = True  # it counts if it came before the revival: both is right
        one.holder = None

    @precondition(lambda self: self.held())
    @rule(data=st.data(), invisible_ms=st.sampled_from([0, 2_000, 15_000]))
    def ask_for_time(self, data: st.DataObject, invisible_ms: int) -> None:
        name = data.draw(st.sampled_from(self.held()))
        one, now_ms = self.known[name], self.pop_kit.clock.ms
        assert one.holder is not None
        if now_ms > one.visible_ms:
            one.may_repeat = True  # it may have been revived already
        reply, one.holder = self.pop_kit.change(one.holder, invisible_ms)
        assert reply.code == 0
        one.visible_ms = now_ms + invisible_ms

    @rule(ms=st.sampled_from([300, 1_000, 2_500, 6_000]))
    def wait(self, ms: int) -> None:
        self.loop.run_until_complete(self.pop_kit.pass_time(ms))
        self.unsaved.update(name for name in self.known if self.may_be_revived(name))

    def may_be_revived(self, name: str) -> bool:
        one = self.known[name]
        return not one.is_done and one.visible_ms <= self.pop_kit.clock.ms

    @rule()
    def save(self) -> None:
        """After it a kill forgets nothing, but for what is not committed yet."""
        self.loop.run_until_complete(self.pop_kit.save())
        self.unsaved = {name for name in self.unsaved if not self.is_committed(name)}

    def is_committed(self, name: str) -> bool:
        """Whether the group's offset has passed the last handing out."""
        place = self.known[name].place
        return place is None or (self.pop_kit.offsets.query(GROUP, *place[:2]) or 0) > place[2]

    @rule(saved=st.booleans(), cut=st.booleans())
    def kill(self, saved: bool, cut: bool) -> None:
        if saved:
            self.save()
        if cut:  # a pop is answered, and then nothing more is written
            reply = self.pop_kit.pop_reply(end_turn=False, max_msg_nums=3)
            assert reply is not None
            for handed in handed_by(reply, TOPIC, GROUP, self.pop_kit.config):
                self.known[handed.name].may_repeat = True
        for name in self.unsaved:
            self.known[name].may_repeat = True
        self.loop.run_until_complete(self.pop_kit.kill())

    @rule()
    def stop(self) -> None:
        """Nothing is forgotten."""
        self.loop.run_until_complete(self.pop_kit.stop())
        self.loop.run_until_complete(self.pop_kit.start())
        self.unsaved.clear()

    # --- what holds

    @invariant()
    def lines_are_short(self) -> None:
        if self.kit is not None:
            assert len(self.kit.buffer) <= self.kit.config.pop_ck_max_buffer_size

    def teardown(self) -> None:
        if self.kit is not None:
            self.drain()
            self.loop.run_until_complete(self.kit.stop())
        self.loop.close()
        self.folder.cleanup()

    def drain(self) -> None:
        """Whoever takes everything and acknowledges it at once gets all that is not done, and then nothing more."""
        sure = {name for name, one in self.known.items() if one.is_done and not one.may_repeat}
        for _ in range(12):
            self.loop.run_until_complete(self.pop_kit.pass_time(LATE_MS))
            while handed := self.pop_kit.pop(invisible_time=30_000):
                for one in handed:
                    self.take(one, 30_000)
                    self.acknowledge(one.name)
                    sure.add(one.name)
        late = {name for name, one in self.known.items() if one.is_done}
        assert sure | late == set(self.known), "every message is handed out until it is done"
        assert not self.pop_kit.buffer.latest(TOPIC, GROUP, 0) > 0 or self.pop_kit.config.enable_pop_buffer_merge


PopMachine.TestCase.settings = settings(
    max_examples=12, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestPop: Any = PopMachine.TestCase
