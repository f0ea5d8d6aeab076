"""What must hold, as data: CometMQ's median divided by Apache RocketMQ's, with a bound on either side."""

from __future__ import annotations

from dataclasses import dataclass

from bench.metrics import BY_KEY
from bench.results import Result


@dataclass(frozen=True)
class Gate:
    metric: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def bound(self) -> str:
        return f"≥ {self.at_least:g} ×" if self.at_least is not None else f"≤ {self.at_most:g} ×"

    def holds(self, ratio: float) -> bool:
        return (self.at_least is None or ratio >= self.at_least) and (self.at_most is None or ratio <= self.at_most)


GATES = (
    Gate("sends", at_least=1.0),
    Gate("pulls", at_least=1.0),
    Gate("latency_p50", at_most=0.7),
    Gate("memory", at_most=0.25),
    Gate("startup", at_most=0.25),
)


@dataclass(frozen=True)
class Verdict:
    gate: Gate
    ratio: float
    passed: bool

    def __str__(self) -> str:
        word = "PASS" if self.passed else "MISS"
        return f"{word}  {BY_KEY[self.gate.metric].label}: {self.ratio:.2f} × ({self.gate.bound})"


def judge(result: Result) -> list[Verdict]:
    """A verdict for each gate whose metric both sides have runs of."""
    verdicts = []
    for gate in GATES:
        ratio = result.ratio(BY_KEY[gate.metric])
        if ratio is not None:
            verdicts.append(Verdict(gate, ratio, gate.holds(ratio)))
    return verdicts
