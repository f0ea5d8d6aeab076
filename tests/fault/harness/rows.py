"""One row of the fault matrix: how many times, with which seed, and what came of it.

    with Row(1, "kill -9 under load, SYNC_FLUSH", trimmed=8, full=1000) as row:
        for number in row.each():
            row.violations += …

FAULT_SHARE is the share of the full numbers to run (1 is `make fault`); without it the trimmed ones are run. Where it
is set, a row leaves a JSON result: beside the benchmarks' if the numbers are full, else in their scratch folder.
FAULT_SEED replays a run of the same FAULT_SHARE: exactly where all is in one process, else its choices, at moments that
the machine decides.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench import machine

RESULTS: Final = Path(__file__).parents[3] / "bench" / "results"
TRIMMED_SEED: Final = 6
PROGRESS_EVERY_S: Final = 5.0
VIOLATIONS_SHOWN: Final = 10


def share() -> float | None:
    """The share of the full numbers that was asked for; None for the trimmed ones."""
    text = os.environ.get("FAULT_SHARE", "")
    return float(text) if text else None


def seed() -> int:
    """The seed of this run: the one given, else a fixed one for trimmed numbers and a new one for full ones."""
    global _seed
    if _seed is None:
        text = os.environ.get("FAULT_SEED", "")
        _seed = int(text) if text else TRIMMED_SEED if share() is None else random.SystemRandom().randrange(1 << 31)
    return _seed


_seed: int | None = None


def replay() -> str:
    """What to set so that a run makes the choices of this one."""
    text = os.environ.get("FAULT_SHARE", "")
    return f"FAULT_SHARE={text} FAULT_SEED={seed()}"  # an empty share is none


class Row:
    """Counts, and judges when it is left: a violation fails the test, with the seed that shows it."""

    def __init__(self, number: int, subject: str, *, trimmed: int, full: int) -> None:
        part = share()
        self.number = number
        self.subject = subject
        self.full = full
        self.count = trimmed if part is None else max(1, round(full * part))
        self.done = 0
        self.numbers: dict[str, Any] = {}
        self.violations: list[str] = []
        self.chance = random.Random(f"{seed()} {number} {subject}")
        self._began = self._told = time.monotonic()

    def __enter__(self) -> Self:
        print(f"row {self.number}, {self.subject}: {self.count} of {self.full}; {replay()} replays it")
        return self

    def each(self) -> Iterator[int]:
        """0 … count-1, with progress; ends early once there are enough violations to look at."""
        for number in range(self.count):
            if len(self.violations) >= VIOLATIONS_SHOWN:
                return
            yield number
            self.step()

    def step(self, count: int = 1) -> None:
        self.done += count
        now = time.monotonic()
        if now - self._told > PROGRESS_EVERY_S:
            self._told = now
            told = f"  row {self.number}: {self.done}/{self.count}, {len(self.violations)} violations"
            print(told, file=sys.stderr, flush=True)

    def chance_of(self, number: int) -> random.Random:
        """The choices of one among many that run at a time: the same, whatever the others do."""
        return random.Random(f"{seed()} {self.number} {self.subject} {number}")

    def add(self, **numbers: float) -> None:
        """Add to the numbers of the result."""
        for name, number in numbers.items():
            self.numbers[name] = self.numbers.get(name, 0) + number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt):
            self.violations.append(f"ended by {error!r}")
        seconds = round(time.monotonic() - self._began, 1)
        if share() is not None:
            self._save(seconds)
        print(f"row {self.number}, {self.subject}: {self.done} done in {seconds} s, {self.numbers}")
        if error is None and self.violations:
            shown = "\n".join(self.violations[:VIOLATIONS_SHOWN])
            raise AssertionError(f"{len(self.violations)} violations; {replay()} replays them:\n{shown}")

    def _save(self, seconds: float) -> None:
        folder = RESULTS / ("fault" if share() == 1 else "scratch/fault")
        folder.mkdir(parents=True, exist_ok=True)
        words = re.sub(r"[^a-z0-9]+", "-", self.subject.lower()).strip("-")
        result = {
            "row": self.number,
            "subject": self.subject,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": machine.commit(),
            "seed": seed(),
            "count": self.done,
            "full": self.full,
            "numbers": self.numbers,
            "violations": len(self.violations),
            "first_violations": self.violations[:VIOLATIONS_SHOWN],
            "seconds": seconds,
            "machine": machine.facts(),
        }
        text = json.dumps(result, indent=2, ensure_ascii=False)
        (folder / f"row-{self.number:02d}-{words}.json").write_text(f"{text}\n", encoding="utf-8")
