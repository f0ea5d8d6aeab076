"""The live table of a run on a terminal that it does not fit into: nothing is left over, and nothing else is wiped."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.spark.terminal import Screen, open_terminal, read_screen

from cometmq.spark.pipelines import display
from cometmq.spark.pipelines.display import Display, fitted
from cometmq.spark.pipelines.flows import Flow, Flows

COLUMNS, LINES = 60, 10


def flows_of(count: int, *, lag: int = 1, running: frozenset[int] = frozenset()) -> Flows:
    found = Flows()
    for number in range(count):
        state = "RUNNING" if number in running else "COMPLETED"
        waiting = {f"topic-{topic}-with-a-long-name": topic for topic in range(lag)}
        found.flows[f"flow_{number}"] = Flow(f"flow_{number}", state, batches=1, lag=waiting)
    return found


def shown(act: Callable[[Display], None], monkeypatch: pytest.MonkeyPatch) -> Screen:
    """What stands on a small terminal after a display was used on it."""
    monkeypatch.setattr(display, "EVERY_S", 0)
    ours, theirs = open_terminal(COLUMNS, LINES)
    try:
        with os.fdopen(theirs, "w") as out:
            act(Display(out))
        return read_screen(ours, COLUMNS, LINES)
    finally:
        os.close(ours)


@pytest.mark.parametrize("count", [1, 7, 8, 40])
def test_a_table_is_renewed_in_place(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flows = flows_of(count, lag=3)

    def act(one: Display) -> None:
        one.say("starting")
        for _ in range(5):
            one.renew(flows)

    screen = shown(act, monkeypatch)
    above, *table, cursor = screen.lines
    assert (above, cursor) == ("starting", "")
    assert len(table) == min(count + 2, LINES - 1)
    assert all(len(line) < COLUMNS for line in table)
    assert sum(line.startswith("flow ") for line in table) == 1
    assert [line.split()[0] for line in table[2:]][:6] == [f"flow_{number}" for number in range(min(count, 6))]
    assert table[2].endswith("…"), "the topics have no room"
    assert table[-1] == (f"and {count - 6} more" if count > 7 else table[2].replace("flow_0", f"flow_{count - 1}"))


def test_what_runs_is_shown_before_what_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = shown(lambda one: one.renew(flows_of(40, running=frozenset({25, 39}))), monkeypatch)
    assert [line.split()[0] for line in screen.lines[2:5]] == ["flow_25", "flow_39", "flow_0"]


def test_nothing_but_what_was_said_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def act(one: Display) -> None:
        one.say("one")
        one.renew(flows_of(40, lag=9))
        one.say("two")
        one.renew(flows_of(3))
        one.close()
        one.renew(flows_of(3))
        one.say("three")

    assert shown(act, monkeypatch).lines == ["one", "two", "three", ""]


def test_the_echo_of_a_key_is_wiped_too() -> None:
    ours, theirs = open_terminal(COLUMNS, LINES)
    try:
        with os.fdopen(theirs, "w") as out:
            one = Display(out)
            one.renew(flows_of(3))
            out.write("^C")
            one.say("stopping")
        assert read_screen(ours, COLUMNS, LINES).lines == ["stopping", ""]
    finally:
        os.close(ours)


def test_a_terminal_that_does_not_know_its_size() -> None:
    ours, theirs = open_terminal(0, 0)
    try:
        with os.fdopen(theirs, "w") as out:
            Display(out).renew(flows_of(3))
        assert read_screen(ours, 80, 24).lines[2].startswith("flow_0  completed")
    finally:
        os.close(ours)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (5, 3), (60, 4), (0, 0)])
def test_terminals_too_small_for_anything(size: tuple[int, int]) -> None:
    lines = fitted(list(flows_of(5).flows.values()), os.terminal_size(size)).split("\n")
    assert len(lines) <= max(size[1] - 1, 1)
    assert all(len(line) <= max(size[0] - 1, 1) for line in lines)
