"""The short version of `make soak`, in a process of its own; and how growth is judged."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bench.growth import ALLOWED, Sample, growth_of
from bench.machine import ROOT


def sample(number: int, **more: float) -> Sample:
    values = {"memory_mb": 40.0, "tasks": 9, "descriptors": 9, "threads": 1, "objects": 40_000, **more}
    return Sample("load", number, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ALLOWED)
def test_what_grows_is_seen(what: str) -> None:
    step = {"memory_mb": 0.5, "objects": 200}.get(what, 1)
    start = getattr(sample(0), what)
    rising = growth_of([sample(number, **{what: start + step * number}) for number in range(30)])
    assert [growth.what for growth in rising if not growth.is_allowed] == [what]
    waves = growth_of([sample(number, **{what: start + step * 20 * (number % 3)}) for number in range(30)])
    assert all(growth.is_allowed for growth in waves)


def test_too_few_samples() -> None:
    with pytest.raises(ValueError, match="samples"):
        growth_of([sample(1)] * 5)


def test_nothing_grows() -> None:
    command = [sys.executable, "-m", "bench.soak", "--idle-s", "10", "--messages", "40000", "--name", "scratch/soak"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.count("PASS") == 13
