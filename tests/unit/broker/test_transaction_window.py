"""Which half messages are open, and how little is remembered of those that are not."""

from __future__ import annotations

import pytest

from cometmq.broker.transaction import window as module
from cometmq.broker.transaction.window import HalfWindow, State


def test_what_nobody_closed_is_open() -> None:
    window = HalfWindow(10)
    assert window.state(10) is window.state(10_000_000) is State.OPEN
    assert window.state(9) is State.PASSED
    assert window.next_open(10) == 10
    assert window.next_open(50) == 50
    assert window.advance() == 10


def test_the_base_stops_at_the_first_open_one() -> None:
    window = HalfWindow(0)
    for offset in (0, 1, 3):
        window.close(offset, State.COMMITTED)
    assert window.advance() == 2
    assert window.next_open(3) == 4
    window.close(2, State.ROLLED_BACK)
    assert window.advance() == 4
    assert [window.state(offset) for offset in range(5)] == [1, 1, 2, 1, 0]


def test_a_transaction_is_where_its_latest_copy_is() -> None:
    window = HalfWindow(0)
    assert window.move(0, 5) == 0
    assert window.move(0, 9) == 5
    assert window.latest_of(0) == 9
    assert window.state(5) is State.MOVED
    assert window.state_of(0) is State.OPEN
    window.close(9, State.COMMITTED)
    assert window.state_of(0) is State.COMMITTED
    assert window.state_of(1) is State.OPEN


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_COUNT", 10)
    window = HalfWindow(0)
    for root in range(100):
        window.move(root, 1_000 + root)
        window.close(1_000 + root, State.COMMITTED)
    for offset in range(100, 1_000):
        window.close(offset, State.ROLLED_BACK)
    assert window.advance() == 1_100
    assert window.state_of(0) is State.PASSED
    assert window.state_of(99) is State.COMMITTED
    assert len(window._states) + len(window._latest) + len(window._root_of) <= 3 * 20


def test_places_that_retention_took_are_passed() -> None:
    window = HalfWindow(0)
    assert window.pass_before(7) == 7
    assert window.next_open(0) == 7
    assert window.pass_before(3) == 7
