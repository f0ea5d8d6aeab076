"""The summary of how long each suite took."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.minutes import seconds_by_suite, suite_of, summary, warnings


@pytest.mark.parametrize(
    ("nodeid", "suite"),
    [
        ("tests/unit/store/test_store.py::test_one[x::y]", "unit"),
        ("tests/interop/test_pop.py::test_two", "interop"),
        ("tests/test_house.py::test_three", "test_house"),
        ("elsewhere.py::test_four", "elsewhere.py"),
    ],
)
def test_a_suite_is_a_folder(nodeid: str, suite: str) -> None:
    assert suite_of(nodeid) == suite


def test_the_longest_comes_first_and_the_short_are_left_out() -> None:
    durations = [("tests/unit/a.py::t", 30.0), ("tests/fault/b.py::t", 60.0), ("tests/unit/c.py::t", 60.0)]
    seconds = seconds_by_suite([*durations, ("tests/docs/d.py::t", 0.2)])
    assert summary(seconds) == ["   1.5 min  unit", "   1.0 min  fault"]
    assert summary(Counter()) == []


def test_lanes_that_run_side_by_side_share_the_time() -> None:
    durations = [("tests/unit/a.py::t", 60.0), ("tests/interop/b.py::t", 120.0)]
    assert summary(seconds_by_suite(durations, lanes=2)) == ["   1.0 min  interop", "   0.5 min  unit"]


def test_suites_that_share_a_limit_are_added_up() -> None:
    assert warnings(seconds_by_suite([("tests/interop/a.py::t", 300.0), ("tests/spark/b.py::t", 300.0)])) == []
    over = seconds_by_suite([("tests/interop/a.py::t", 300.0), ("tests/differential/b.py::t", 186.0)])
    assert warnings(over) == ["differential + interop took 8.1 min, more than the 8 that they may"]
