"""Who is first among the brokers of one name, whom a reader is told to ask, what a master takes over from a slave."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cometmq.broker.acting.duties import Duties
from cometmq.broker.acting.group import BrokerGroup, Change
from cometmq.broker.acting.reading_place import ReadingPlace
from cometmq.broker.acting.standing_in import StandingIn
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delay.progress import DelayOffsets
from cometmq.broker.timer.elsewhere import Elsewhere
from cometmq.clock import SystemClock
from cometmq.errors import ProtocolError, RequestRefused
from cometmq.model.group import GroupConfig
from cometmq.store.fs import OsFs
from cometmq.store.tables import TableFile
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode

MASTER, SLAVE = "10.0.0.1:1", "10.0.0.2:1"
NOT_FOUND, MOVED, AGAIN = (
    int(ResponseCode[name]) for name in ("PULL_NOT_FOUND", "PULL_OFFSET_MOVED", "PULL_RETRY_IMMEDIATELY")
)


def slave(*, may_act: bool = True) -> tuple[BrokerGroup, list[Change]]:
    changes: list[Change] = []
    group = BrokerGroup(1, SLAVE, "10.0.0.2:2", may_act)
    group.on_change.append(changes.append)
    return group, changes


def test_a_slave_is_first_while_the_master_is_gone() -> None:
    group, changes = slave()
    group.listed({0: MASTER, 1: SLAVE})
    assert not changes and not group.is_first and group.master_is_there
    group.listed({1: SLAVE})
    assert group.is_first and not group.master_is_there
    group.listed({1: SLAVE})
    group.listed({0: MASTER, 1: SLAVE})
    assert not group.is_first
    assert changes == [Change(1, SLAVE, offline_addr=MASTER), Change(0, MASTER)]
    assert [change.master_is_back for change in changes] == [False, True]


def test_an_empty_list_is_no_news() -> None:
    group, changes = slave()
    group.listed({})
    assert not changes and group.alive == 1


def test_one_that_may_not_act_never_is_first() -> None:
    group, changes = slave(may_act=False)
    group.listed({1: SLAVE})
    group.told(Change(1, SLAVE))
    assert not changes and not group.is_first
    group.link_is_up = lambda: False
    assert not group.master_is_there


def test_a_master_hears_of_nobody_before_it() -> None:
    group = BrokerGroup(0, MASTER, "10.0.0.1:2", True)
    group.told(Change(1, SLAVE))
    assert group.is_first and group.master_is_there
    group.listed({0: MASTER, 1: SLAVE, 2: "10.0.0.3:1"})
    assert (group.alive, group.others) == (3, [SLAVE, "10.0.0.3:1"])


class Heard:
    """A stream that is there or not, and says something or not."""

    def __init__(self) -> None:
        self.source: str | None = MASTER
        self.connected = self.says_something = True

    def hears(self, within_s: float) -> bool:
        return self.says_something

    def told(self, ha_address: str | None, master_address: str | None) -> None:
        pass


def standing_in() -> tuple[StandingIn, BrokerGroup, Duties, Heard]:
    group, heard, duties = slave()[0], Heard(), Duties()

    async def work() -> None:
        await asyncio.Event().wait()

    duties.add("working", work)
    return StandingIn(BrokerConfig(enable_remote_escape=True), group, duties, heard), group, duties, heard


async def test_a_slave_acts_only_while_its_master_is_silent_too(caplog: pytest.LogCaptureFixture) -> None:
    standing, group, duties, heard = standing_in()
    group.listed({1: SLAVE})
    standing.look()
    assert group.is_first and not duties.are_done
    assert [one.message for one in caplog.records if "the master lives" in one.message], "said in words"
    for silent, connected in ((True, True), (False, True), (True, False)):
        heard.says_something, heard.connected = not silent, connected
        standing.look()
        assert duties.are_done == silent
    group.listed({0: MASTER, 1: SLAVE})
    assert not duties.are_done
    group.listed({1: SLAVE})
    assert duties.are_done
    await duties.close()


async def test_a_master_that_says_it_is_here_is_believed_before_its_stream_is(caplog: pytest.LogCaptureFixture) -> None:
    standing, group, duties, heard = standing_in()
    heard.says_something = heard.connected = False
    group.listed({1: SLAVE})
    assert duties.are_done
    group.on_master("10.0.0.1:2", MASTER)
    standing.look()
    assert not duties.are_done
    assert not [one for one in caplog.records if "the master lives" in one.message], "nobody knows that yet"
    await duties.close()


def place(group: BrokerGroup, *, read: bool = True, checks: bool = False) -> ReadingPlace:
    is_slave = group.own_id != 0
    return ReadingPlace(BrokerConfig(slave_read_enable=read), group, is_slave=is_slave, checks_offsets=checks)


def test_a_master_suggests_the_slave_to_who_is_far_behind() -> None:
    group = GroupConfig("g", which_broker_when_consume_slowly=2)
    master = BrokerGroup(0, MASTER, "")
    assert place(master).suggest(group) == 0
    assert place(master).suggest(group, is_far_behind=True) == 2
    assert place(master, read=False).suggest(group, is_far_behind=True) == 0
    assert place(master).suggest(GroupConfig("g", broker_id=1)) == 1


def test_a_slave_sends_readers_to_its_master() -> None:
    group, _ = slave()
    here = place(group)
    assert here.suggest(GroupConfig("g", broker_id=1)) == 0
    assert here.suggest(GroupConfig("g"), is_far_behind=True) == 1
    assert (here.code(0), here.code(NOT_FOUND), here.code(MOVED)) == (0, AGAIN, AGAIN)


@pytest.mark.parametrize("may_act", [True, False])
def test_a_slave_that_is_alone_lets_them_wait(may_act: bool) -> None:
    group, _ = slave(may_act=may_act)
    group.link_is_up = lambda: False
    group.told(Change(1, SLAVE))
    here = place(group, read=False)
    here.check()
    assert (here.code(0), here.code(NOT_FOUND), here.code(MOVED)) == (0, NOT_FOUND, NOT_FOUND)
    assert place(group, checks=True).code(MOVED) == MOVED


def test_a_slave_serves_nobody_unless_it_may() -> None:
    group, _ = slave()
    with pytest.raises(RequestRefused):
        place(group, read=False).check()
    place(group).check()


def delay_offsets(folder: Path, *, keeps_ahead: bool) -> DelayOffsets:
    log: Any = SimpleNamespace(written_offset=0, flushed_offset=0, next_offset=lambda *queue: 9)
    made = DelayOffsets(TableFile(OsFs(), str(folder / "delayOffset.json")), log, SystemClock(), 1)
    made.keeps_ahead = keeps_ahead
    made.advance(1, 7)
    made.advance(2, 3)
    return made


def table(**levels: int) -> bytes:
    return fastjson.dumps({"offsetTable": levels, "dataVersion": {"counter": 9}})


def test_a_slave_that_acted_is_not_put_back_by_its_master(tmp_path: Path) -> None:
    acted = delay_offsets(tmp_path, keeps_ahead=True)
    acted.follow(table(**{"1": 5, "3": 2}))
    assert acted.current == {1: 7, 2: 3, 3: 2}
    follows = delay_offsets(tmp_path, keeps_ahead=False)
    follows.follow(table(**{"1": 5, "3": 2}))
    assert follows.current == {1: 5, 3: 2}


def test_a_master_that_comes_back_takes_what_is_ahead(tmp_path: Path) -> None:
    master = delay_offsets(tmp_path, keeps_ahead=False)
    master.take_back(table(**{"1": 5, "2": 4}))
    assert master.current == {1: 7, 2: 4}
    master.take_back(table(**{"2": 50}))  # with messages that the master lost
    assert master.current == {1: 7, 2: 9}
    with pytest.raises(ProtocolError):
        master.take_back(b"{}")


def timed(queue_offset: int, deliver_ms: int, topic: str = "T") -> Any:
    slot_ms = (deliver_ms - 1) // 1000 * 1000
    found = {"TIMER_DELIVER_MS": str(deliver_ms), "TIMER_OUT_MS": str(slot_ms), "REAL_TOPIC": topic}
    return SimpleNamespace(queue_offset=queue_offset, store_time_ms=0, properties=found)


@pytest.mark.parametrize(
    ("record", "is_delivered"),
    [
        (timed(4, 9_500), True),
        (timed(4, 9_501), False),  # in the same slot, and not due when the slave stopped
        (timed(5, 9_000), False),  # the slave never had it
        (timed(4, 9_000, "rmq_sys_REVIVE_LOG_C"), False),  # only its own master can use it
    ],
)
def test_what_an_acting_slave_has_delivered_of_timed_messages(record: Any, is_delivered: bool) -> None:
    assert Elsewhere(until_ms=9_500, queue_offset=5).has_delivered(record) is is_delivered
