"""Ordered pop: a queue is blocked while something of it is held, and Java's table is ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from cometmq.broker.config import BrokerConfig
from cometmq.broker.groups import Groups
from cometmq.broker.order_info import FORGET_AFTER_MS, ILLEGAL, NOT_NOW, OrderInfos
from cometmq.broker.saved import Table
from cometmq.broker.topics import Topics
from cometmq.model.topic import TopicConfig
from cometmq.wire import fastjson

from .state_kit import MemoryTable, StillClock, file_table

CONFIG = BrokerConfig()
TOPIC, GROUP = "T", "G"
JAVA_FILE = """{
\t"orderInfoCount":1,
\t"orderedConsumptionLevel":"QUEUE",
\t"table":{
\t\t"T@G":{
\t\t\t0:{
\t\t\t\t"a":"one",
\t\t\t\t"cm":2,
\t\t\t\t"i":30000,
\t\t\t\t"l":1700000000000,
\t\t\t\t"o":[5,1,4,5],
\t\t\t\t"oc":{
\t\t\t\t\t5:1,
\t\t\t\t\t9:1
\t\t\t\t},
\t\t\t\t"ot":{
\t\t\t\t\t9:1700000099999
\t\t\t\t},
\t\t\t\t"popTime":1700000000000
\t\t\t}
\t\t}
\t}
}"""


class Kit:
    """Order infos with a topic of 4 queues, a group and a clock."""

    def __init__(self, table: Table | None = None) -> None:
        self.clock = StillClock()
        self.topics = Topics(MemoryTable(), CONFIG, self.clock)
        self.topics.update(TopicConfig(TOPIC, read_queue_nums=4, write_queue_nums=4))
        self.groups = Groups(MemoryTable(), CONFIG, self.clock)
        self.groups.find(GROUP)
        self.table = table or MemoryTable()
        self.infos = self.reopen()

    def reopen(self) -> OrderInfos:
        self.infos = OrderInfos(self.table, self.topics, self.groups, self.clock)
        return self.infos

    def pop(self, offsets: Sequence[int], attempt: str | None = None, invisible_ms: int = 1_000) -> str:
        return self.infos.update(TOPIC, GROUP, 0, offsets, self.clock.time_ms, invisible_ms, attempt)

    def blocked(self, attempt: str | None = None, invisible_ms: int = 1_000) -> bool:
        return self.infos.blocked(TOPIC, GROUP, 0, invisible_ms, attempt)

    def commit(self, offset: int, pop_time_ms: int | None = None) -> int:
        pop_time_ms = self.clock.time_ms if pop_time_ms is None else pop_time_ms
        return self.infos.commit_and_next(TOPIC, GROUP, 0, offset, pop_time_ms)


def test_a_queue_is_blocked_until_all_is_acknowledged() -> None:
    kit = Kit()
    assert not kit.blocked()
    kit.pop([5, 6, 9])
    assert kit.blocked()
    assert kit.commit(6) == 5
    assert kit.blocked()
    assert kit.commit(5) == 9
    assert kit.commit(9) == 10
    assert not kit.blocked()


def test_a_queue_is_free_when_the_time_is_over() -> None:
    kit = Kit()
    kit.pop([5])
    kit.clock.time_ms += 999
    assert kit.blocked()
    kit.clock.time_ms += 1
    assert not kit.blocked()


def test_the_same_attempt_is_not_blocked_and_counts_once() -> None:
    kit = Kit()
    assert kit.pop([5, 6], "one") == "0 0 0"
    assert not kit.blocked("one")
    assert kit.blocked("two")
    assert kit.blocked(None)
    assert kit.pop([5, 6], "one") == "0 0 0"
    assert kit.pop([5, 6], "two") == "0 qo0%5 1;0 qo0%6 1;0 0 1"


def test_times_handed_out_are_counted_by_message() -> None:
    kit = Kit()
    kit.pop([5, 6])
    assert kit.pop([5, 6, 7]) == "0 qo0%5 1;0 qo0%6 1;0 0 0"
    assert kit.pop([5]) == "0 qo0%5 2;0 0 2"
    assert kit.pop([8]) == "0 0 0"


@pytest.mark.parametrize(("topic", "mark"), [("T", "0"), ("%RETRY%G_T", "1"), ("%RETRY%G+T", "2")])
def test_order_counts_name_the_kind_of_topic(topic: str, mark: str) -> None:
    assert Kit().infos.update(topic, GROUP, 3, [1], 0, 1_000) == f"{mark} 3 0"


def test_a_late_acknowledgement_changes_nothing() -> None:
    kit = Kit()
    kit.pop([5])
    old_ms = kit.clock.time_ms
    kit.clock.time_ms += 2_000
    kit.pop([5, 6])
    before = kit.infos.to_json()
    assert kit.commit(5, old_ms) == NOT_NOW
    assert kit.commit(7) == ILLEGAL
    kit.infos.update_next_visible_time(TOPIC, GROUP, 0, 5, old_ms, 0)
    kit.infos.update_next_visible_time(TOPIC, GROUP, 1, 5, old_ms, 0)
    assert kit.infos.to_json() == before
    assert kit.infos.commit_and_next(TOPIC, GROUP, 1, 41, 0) == 42


def test_a_message_comes_back_when_it_is_told_to() -> None:
    kit = Kit()
    kit.pop([5, 6])
    kit.infos.update_next_visible_time(TOPIC, GROUP, 0, 6, kit.clock.time_ms, kit.clock.time_ms + 5_000)
    kit.clock.time_ms += 4_999
    assert kit.blocked()
    kit.clock.time_ms += 1
    assert not kit.blocked()


def test_a_pop_without_invisible_time_takes_that_of_who_asks() -> None:
    kit = Kit()
    kit.pop([5], invisible_ms=0)
    assert kit.infos.when_free is None
    assert list(kit.infos.locked()) == []
    assert kit.blocked(invisible_ms=700)
    kit.clock.time_ms += 700
    assert not kit.blocked(invisible_ms=9_000)


def test_waiters_learn_when_to_look_again() -> None:
    kit = Kit()
    told: list[int] = []
    kit.infos.when_free = lambda topic, group, queue_id, free_at_ms: told.append(free_at_ms - kit.clock.time_ms)
    kit.pop([5, 6])
    kit.infos.update_next_visible_time(TOPIC, GROUP, 0, 5, kit.clock.time_ms, kit.clock.time_ms + 70)
    kit.commit(5)
    kit.commit(6)
    assert told == [1_000, 70, 1_000, 0]


def test_locks_survive_in_their_file(tmp_path: Path) -> None:
    kit = Kit(file_table(tmp_path / "consumerOrderInfo.json"))
    kit.pop([5, 6], "one")
    kit.commit(5)
    kit.infos.persist()
    kit.reopen()
    assert kit.blocked("two")
    assert not kit.blocked("one")
    assert list(kit.infos.locked()) == [(TOPIC, GROUP, 0, kit.clock.time_ms + 1_000)]
    assert kit.commit(6) == 7


def test_javas_file_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "consumerOrderInfo.json"
    path.write_text(JAVA_FILE)
    kit = Kit(file_table(path))
    assert kit.infos.to_json() == fastjson.loads(JAVA_FILE.encode()) | {
        "table": {
            "T@G": {
                0: {
                    "a": "one",
                    "cm": 2,
                    "i": 30_000,
                    "l": kit.clock.time_ms,
                    "o": [5, 1, 4, 5],
                    "oc": {5: 1, 9: 1},
                    "ot": {9: 1_700_000_099_999},
                    "popTime": kit.clock.time_ms,
                }
            }
        }
    }
    assert kit.commit(5) == 9


@pytest.mark.parametrize("count", [0, 64])
def test_what_java_could_not_keep_is_refused(count: int) -> None:
    kit = Kit()
    with pytest.raises(ValueError, match="1 to 63"):
        kit.pop(range(count))
    assert not len(kit.infos)


def test_what_is_gone_is_forgotten() -> None:
    kit = Kit()
    for topic, group, queue_id in (("T", "G", 0), ("T", "G", 4), ("T", "X", 0), ("X", "G", 0)):
        kit.infos.update(topic, group, queue_id, [1], 0, 1_000)
    assert kit.infos.to_json()["table"].keys() == {"T@G"}
    assert kit.infos.get("T", "G", 4) is None
    kit.clock.time_ms += FORGET_AFTER_MS + 1
    kit.infos.clean()
    assert not len(kit.infos)


def test_a_reset_frees_the_queue() -> None:
    kit = Kit()
    kit.pop([5])
    kit.infos.clear_block(TOPIC, GROUP, 0)
    assert not kit.blocked()
    assert kit.commit(5) == 6


class OneQueue(RuleBasedStateMachine):
    """Against a list of what is held: nothing is handed out twice in time, and the committed offset never passes it."""

    pops = Bundle("pops")

    def __init__(self) -> None:
        super().__init__()
        self.kit = Kit()
        self.committed = 0
        self.held: dict[int, int] = {}  # offset → visible again at
        self.pop_time_ms = 0

    @rule(target=pops, count=st.integers(1, 32))
    def pop(self, count: int) -> tuple[int, range]:
        self.kit.clock.time_ms += 1
        popped = range(self.committed, self.committed + count)
        if self.kit.blocked():
            assert any(time_ms > self.kit.clock.time_ms for time_ms in self.held.values())
            return self.pop_time_ms, range(0)
        self.kit.pop(popped)
        self.pop_time_ms = self.kit.clock.time_ms
        self.held = dict.fromkeys(popped, self.pop_time_ms + 1_000)
        return self.pop_time_ms, popped

    @rule(pop=pops, choice=st.integers(0, 31))
    def acknowledge(self, pop: tuple[int, range], choice: int) -> None:
        time_ms, offsets = pop
        if not offsets:
            return
        offset = offsets[choice % len(offsets)]
        following = self.kit.commit(offset, time_ms)
        if time_ms != self.pop_time_ms:
            assert following == NOT_NOW
            return
        self.held.pop(offset, None)
        assert following == min(self.held, default=offsets[-1] + 1)
        self.committed = following

    @rule(pop=consumes(pops), delay_ms=st.integers(0, 3_000))
    def change(self, pop: tuple[int, range], delay_ms: int) -> None:
        time_ms, offsets = pop
        if offsets:
            visible_ms = self.kit.clock.time_ms + delay_ms
            self.kit.infos.update_next_visible_time(TOPIC, GROUP, 0, offsets[0], time_ms, visible_ms)
            if time_ms == self.pop_time_ms and offsets[0] in self.held:
                self.held[offsets[0]] = visible_ms

    @rule(passed_ms=st.integers(0, 1_500))
    def wait(self, passed_ms: int) -> None:
        self.kit.clock.time_ms += passed_ms

    @rule()
    def reopen(self) -> None:
        self.kit.infos.persist()
        self.kit.reopen()

    @invariant()
    def blocked_while_something_is_held(self) -> None:
        assert self.kit.blocked() == any(time_ms > self.kit.clock.time_ms for time_ms in self.held.values())


TestOneQueue = OneQueue.TestCase
