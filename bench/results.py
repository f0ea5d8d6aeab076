"""A benchmark's result: every run as it was counted, kept as JSON; medians are derived, never stored."""

from __future__ import annotations

import dataclasses
import json
import random
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from bench import machine
from bench.metrics import Metric, Source

RESULTS: Final = Path(__file__).with_name("results")


@dataclass
class Run:
    """One run of one workload on one side. `values` holds what was counted, by field name."""

    side: Source
    round: int
    workload: str
    values: dict[str, float]


@dataclass
class Result:
    name: str
    date: str
    commit: str
    seed: int
    rounds: int
    machine: dict[str, Any]
    settings: dict[str, Any]
    runs: list[Run] = field(default_factory=list)

    @classmethod
    def begin(cls, name: str, seed: int | None, rounds: int, settings: dict[str, Any]) -> Self:
        """Without runs yet, but with what they depend on; without a seed one is chosen."""
        return cls(
            name=name,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=machine.commit(),
            seed=random.randrange(1 << 31) if seed is None else seed,
            rounds=rounds,
            machine=machine.facts(),
            settings=settings,
        )

    def values(self, side: Source, workload: str, field_name: str) -> list[float]:
        return [
            run.values[field_name]
            for run in self.runs
            if run.side == side and run.workload == workload and field_name in run.values
        ]

    def median(self, metric: Metric, side: Source) -> float | None:
        values = self.values(side, metric.workload, metric.field)
        return statistics.median(values) if values else None

    def ratio(self, metric: Metric, side: Source | None = None) -> float | None:
        """CometMQ's median in units of Apache RocketMQ's; `side` where it is not the one that stands for CometMQ."""
        java, comet = self.median(metric, "java"), self.median(metric, side or metric.comet)
        return comet / java if java and comet is not None else None

    def save(self) -> Path:
        path = path_of(self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = dataclasses.asdict(self)
        runs = ",\n".join(f"    {json.dumps(run)}" for run in head.pop("runs"))  # a line each: diffs stay readable
        text = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
        path.write_text(f'{text},\n  "runs": [\n{runs}\n  ]\n}}\n', encoding="utf-8")
        return path

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Save what the block measures; if it fails, what it had measured till then, beside the results of the tree."""
        try:
            yield
        except BaseException:
            if self.runs:
                self.name = f"scratch/{self.name.replace('/', '-')}-unfinished"
                self.save()
            raise
        self.save()

    @classmethod
    def load(cls, path: Path) -> Self:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**fields, "runs": [Run(**run) for run in fields["runs"]]})


def path_of(name: str) -> Path:
    """Where a result is kept; a name with `scratch/` before it is not kept in the tree."""
    return RESULTS / f"{name}.json"


def newest() -> Path:
    """The result in the tree with the latest date."""
    found = sorted(RESULTS.glob("*.json"), key=lambda path: str(json.loads(path.read_text(encoding="utf-8"))["date"]))
    if not found:
        raise FileNotFoundError(f"no result in {RESULTS.name}/: run `make bench` first")
    return found[-1]
