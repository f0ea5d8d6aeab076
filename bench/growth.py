"""What a process holds, sampled while it is at rest, and whether that grows.

Growth is the lowest of the last third of the samples less the lowest of the first third: what comes and goes does not
count, what stays does. The first sample is taken when everything was used once, so caches are filled by then.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from bench.startup import anonymous_mb

SAMPLES_MIN: Final = 6


@dataclass(frozen=True)
class Sample:
    """`done`: messages or seconds so far; memory is anonymous, objects are those that the collector knows."""

    phase: str
    done: float
    memory_mb: float
    tasks: int
    descriptors: int
    threads: int
    objects: int

    @classmethod
    def take(cls, phase: str, done: float) -> Self:
        gc.collect()
        return cls(
            phase,
            done,
            anonymous_mb([os.getpid()]),
            len(asyncio.all_tasks()),
            sum(1 for _ in Path("/proc/self/fd").iterdir()),
            threading.active_count(),
            len(gc.get_objects()),
        )


@dataclass(frozen=True)
class Allowance:
    """How much a number may differ between two thirds: so much, and such a share of what it was."""

    fixed: float
    share: float = 0.0


ALLOWED: Final = {
    "memory_mb": Allowance(4.0, 0.05),
    "tasks": Allowance(2),
    "descriptors": Allowance(1),
    "threads": Allowance(1),
    "objects": Allowance(500, 0.02),
}


@dataclass(frozen=True)
class Growth:
    phase: str
    what: str
    first: float
    last: float

    @property
    def is_allowed(self) -> bool:
        allowed = ALLOWED[self.what]
        return self.last - self.first <= allowed.fixed + allowed.share * self.first

    def __str__(self) -> str:
        word = "PASS" if self.is_allowed else "MISS"
        return f"{word}  {self.phase}: {self.what} {self.first:,g} → {self.last:,g}"


def growth_of(samples: Sequence[Sample]) -> list[Growth]:
    """For each phase and each number."""
    found = []
    for phase in dict.fromkeys(sample.phase for sample in samples):
        mine = [sample for sample in samples if sample.phase == phase]
        if len(mine) < SAMPLES_MIN:
            raise ValueError(f"{phase} has {len(mine)} samples; {SAMPLES_MIN} are the least that say something")
        third = len(mine) // 3
        for what in ALLOWED:
            first, last = (min(getattr(sample, what) for sample in part) for part in (mine[:third], mine[-third:]))
            found.append(Growth(phase, what, first, last))
    return found
