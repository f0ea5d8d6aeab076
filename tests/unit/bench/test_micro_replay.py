"""The short version of `python -m bench.micro_replay`, and how it is judged."""

from __future__ import annotations

import pytest
from bench import micro_replay
from bench.results import Result, Run


@pytest.mark.parametrize(("s_per_gib", "count"), [(5.0, 0), (5.01, 1)])
def test_what_takes_too_long_is_said(s_per_gib: float, count: int) -> None:
    result = Result.begin("scratch/replay", 0, 1, {})
    result.runs += [Run("comet", 1, "kill", {"s_per_gib": 1.0}), Run("pure", 1, "all", {"s_per_gib": s_per_gib})]
    assert len(micro_replay.misses(result)) == count


def test_a_short_run(capsys: pytest.CaptureFixture[str]) -> None:
    micro_replay.main(["--mib", "1", "--case", "all", "--rounds", "1"])  # so short, most is the opening itself
    assert "pure all" in capsys.readouterr().out
