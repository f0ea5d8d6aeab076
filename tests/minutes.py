"""How much of a run's time each suite took: its tests' durations, divided by the lanes that ran side by side.

So the minutes of all suites add up to those of the run, of which each may take its part. A suite is a folder of tests.
Those in LIMITS_MIN are warned of when they take longer than they may; a slow machine is no failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

SHOWN_FROM_S = 1.0
LIMITS_MIN: dict[tuple[str, ...], float] = {("differential", "interop"): 8, ("fault",): 8, ("spark",): 5}


def suite_of(nodeid: str) -> str:
    """The folder below `tests`; a file that stands there alone counts by its name."""
    parts = nodeid.partition("::")[0].split("/")
    return parts[1].removesuffix(".py") if len(parts) > 1 else parts[0]


def seconds_by_suite(durations: Iterable[tuple[str, float]], lanes: int = 1) -> Counter[str]:
    """From (node id, duration) of each setup, call and teardown."""
    seconds: Counter[str] = Counter()
    for nodeid, duration_s in durations:
        seconds[suite_of(nodeid)] += duration_s / lanes  # type: ignore[assignment]
    return seconds


def summary(seconds: Counter[str]) -> list[str]:
    """A line for each suite that took its time, the longest first."""
    shown = [(suite, taken_s) for suite, taken_s in seconds.most_common() if taken_s >= SHOWN_FROM_S]
    return [f"{taken_s / 60:6.1f} min  {suite}" for suite, taken_s in shown]


def warnings(seconds: Counter[str]) -> list[str]:
    """What took longer than it may."""
    return [
        f"{' + '.join(suites)} took {taken_min:.1f} min, more than the {limit_min:g} that they may"
        for suites, limit_min in LIMITS_MIN.items()
        if (taken_min := sum(seconds[suite] for suite in suites) / 60) > limit_min
    ]
