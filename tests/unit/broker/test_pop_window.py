"""The window of a reviver: so many checkpoints and no more, and what comes back does not depend on how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.pop.checkpoint import Ack, CheckPoint
from cometmq.broker.pop.retry_topic import REVIVE_GROUP
from cometmq.broker.pop.window import Window

from .pop_kit import Handed, PopKit, names

COUNT = 12
MANY = 1_000
COME_BACK_MS = 6_000  # after their invisible time, at the latest
MAXIMUM = pytest.mark.parametrize("pending_max", [1, 2, 5, COUNT, MANY])

Start = Callable[[int], PopKit]


class Killed(Exception):
    """Nothing more happens from here on."""


# --- the window alone


def checkpoint(name: int, offset: int = 0) -> CheckPoint:
    point = CheckPoint("T", "G", 0, name, 99, 1_000, "broker-a", [0])
    point.revive_offset = offset
    return point


def acknowledgement(name: int) -> Ack:
    return Ack(*checkpoint(name).key, [name])


def test_what_has_no_room_is_left_out_from_there_on() -> None:
    window = Window(2)
    for name in range(4):
        window.take(checkpoint(name, 10 + name))
    assert (len(window), window.left_out) == (2, 12)
    for name in range(2):
        first = window.first
        assert first is not None and first.start_offset == name
        window.settle(first)
        window.take(checkpoint(9, 20))  # there is room, but it is not its turn
    assert (len(window), window.first, window.left_out) == (0, None, 12)
    window.reopen()
    window.take(checkpoint(2, 12))
    assert (len(window), window.left_out) == (1, None)


def test_one_written_again_takes_its_new_place() -> None:
    window = Window(2)
    for name, offset in ((1, 0), (2, 1), (1, 2)):
        window.take(checkpoint(name, offset))
    assert window.left_out is None
    first = window.first
    assert first is not None and first.start_offset == 2
    window.take(checkpoint(3, 3))
    window.take(checkpoint(2, 4))  # behind one that was left out: it is read again there
    assert (len(window), window.left_out) == (1, 3)


def test_only_acknowledgements_behind_the_left_out_may_be_theirs() -> None:
    window = Window(1)
    window.take(checkpoint(1))
    window.acknowledge(acknowledgement(7))
    assert not window.met_stranger
    window.take(checkpoint(2))
    window.acknowledge(acknowledgement(1))
    assert not window.met_stranger
    assert window.first is not None and window.first.is_done
    window.acknowledge(acknowledgement(2))
    window.acknowledge(acknowledgement(1))
    assert window.met_stranger
    window.reopen()
    assert not window.met_stranger


def open_with(queue: list[tuple[str, int]], count_max: int) -> list[int]:
    """Who is still open when everything was read, in the order of settling."""
    window, still_open = Window(count_max), list[int]()
    at = known_end = 0  # before the end, nothing that counts can be met any more

    def settle() -> None:
        while (first := window.first) is not None:
            window.settle(first)
            if not first.is_done:
                still_open.append(first.start_offset)

    while True:
        while at < len(queue):
            kind, name = queue[at]
            if kind == "ck":
                window.take(checkpoint(name, at))
                assert len(window) <= count_max
            else:
                window.acknowledge(acknowledgement(name))
            at += 1
            if at <= known_end:
                settle()
        settle()
        if window.left_out is None:
            return still_open
        known_end = 0 if window.met_stranger else at
        at = window.left_out
        window.reopen()


@given(
    st.permutations([("ck", name) for name in range(9)] + [("ack", name) for name in range(6)] * 2),
    st.integers(1, 9),
)
def test_what_is_open_in_the_end_does_not_depend_on_the_maximum(queue: list[tuple[str, int]], count_max: int) -> None:
    assert open_with(queue, count_max) == open_with(queue, MANY)


# --- a reviver with it


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    kits: list[PopKit] = []

    def make(pending_max: int) -> PopKit:
        kits.append(PopKit(tmp_path, pending_max=pending_max, revive_queue_num=1))
        return kits[-1]

    yield make
    for kit in kits:
        kit.let_go()


async def hand_out(kit: PopKit) -> list[Handed]:
    """One pop for each message; all are due at one moment, so the revive queue has them before what is said of them."""
    await kit.start()
    handed = []
    due_ms = kit.clock.ms + 5_000
    for number in range(COUNT):
        kit.send(f"{number:02}")
        handed += kit.pop(max_msg_nums=1, invisible_time=due_ms - kit.clock.ms)
        kit.clock.ms += 1
    return handed


async def all_that_comes(kit: PopKit) -> list[str]:
    await kit.pass_time(5_000 + COME_BACK_MS)
    return names([one for _ in range(4) for one in kit.pop(invisible_time=60_000)])  # a read ends with its small file


@MAXIMUM
async def test_it_holds_no_more_and_all_come_back(start: Start, pending_max: int) -> None:
    kit = start(pending_max)
    await hand_out(kit)
    await kit.pass_time(5_000)
    assert kit.revivers[0].pending_count == min(pending_max, COUNT)
    assert await all_that_comes(kit) == [f"{number:02}" for number in range(COUNT)]
    assert kit.revivers[0].pending_count == 0
    assert kit.offsets.query(REVIVE_GROUP, kit.revive_topic, 0) == COUNT - 1


@MAXIMUM
async def test_what_was_acknowledged_in_time_never_comes_back(start: Start, pending_max: int) -> None:
    """The acknowledgement of the first stands behind the checkpoint of the last."""
    kit = start(pending_max)
    for number, one in enumerate(await hand_out(kit)):
        if number % 3:
            kit.ack(one)
    assert await all_that_comes(kit) == ["00", "03", "06", "09"]


@MAXIMUM
async def test_more_time_counts(start: Start, pending_max: int) -> None:
    kit = start(pending_max)
    for number, one in enumerate(await hand_out(kit)):
        if number % 2:
            kit.change(one, 30_000)
    assert await all_that_comes(kit) == ["00", "02", "04", "06", "08", "10"]
    await kit.pass_time(20_000, 2_000)
    assert await all_that_comes(kit) == ["01", "03", "05", "07", "09", "11"]


async def test_after_a_kill_the_rest_comes_back(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = start(5)
    for one in (await hand_out(kit))[-3:]:
        kit.ack(one)
    safe, calls = kit.turns.safe, list[int]()

    async def safe_once(end_offset: int) -> None:
        calls.append(end_offset)
        if len(calls) > 1:
            raise Killed
        await safe(end_offset)

    monkeypatch.setattr(kit.turns, "safe", safe_once)
    with pytest.raises(Killed):
        await kit.pass_time(5_000 + COME_BACK_MS)
    assert kit.offsets.query(REVIVE_GROUP, kit.revive_topic, 0) == 4, "the first window"
    await kit.save()
    await kit.kill()
    came = await all_that_comes(kit)
    assert sorted(set(came)) == [f"{number:02}" for number in range(COUNT - 3)]
    assert came.count("00") == 1, "what was settled before"
