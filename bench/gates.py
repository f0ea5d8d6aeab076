"""What must hold, as data: a bound on CometMQ's median divided by Apache RocketMQ's, or on its own figures."""

from __future__ import annotations

from dataclasses import dataclass

from bench.metrics import BY_KEY, Source
from bench.results import Result


@dataclass(frozen=True)
class Gate:
    metric: str
    at_least: float | None = None
    at_most: float | None = None
    own: bool = False
    """A bound on what CometMQ reached, whatever the other side did."""
    every: bool = False
    """With `own`: no single run may be beyond it, whatever the median is."""
    side: Source | None = None
    """Whose runs are judged, where they are not those that stand for CometMQ."""

    @property
    def label(self) -> str:
        return BY_KEY[self.metric].label + (f" ({self.side})" if self.side else "")

    @property
    def unit(self) -> str:
        return BY_KEY[self.metric].unit if self.own else "×"

    @property
    def bound(self) -> str:
        return f"≥ {self.at_least:g} {self.unit}" if self.at_least is not None else f"≤ {self.at_most:g} {self.unit}"

    def value(self, result: Result) -> float | None:
        """What is judged."""
        metric = BY_KEY[self.metric]
        if not self.own:
            return result.ratio(metric, self.side)
        if self.every:
            return max(result.values(self.side or metric.comet, metric.workload, metric.field), default=None)
        return result.median(metric, self.side or metric.comet)

    def holds(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


GATES = (
    Gate("sends", at_least=1.0),
    Gate("pulls", at_least=1.0),
    Gate("latency_p50", at_most=0.7),
    Gate("sends", at_least=1.0, side="pure"),
    Gate("pulls", at_least=1.0, side="pure"),
    Gate("latency_p50", at_most=0.7, side="pure"),
    Gate("sync_sends", at_least=1.0),
    Gate("sync_sends_p99", at_most=1.0),
    Gate("sync_master", at_least=1.0),
    Gate("sync_master_p99", at_most=1.0),
    Gate("memory", at_most=0.25),
    Gate("startup", at_most=0.25),
    Gate("cold_slowdown", at_most=2.0, own=True),
    Gate("timers_worst", at_most=1_000.0, own=True, every=True),
    Gate("timers_early", at_most=0.0, own=True, every=True),
)


@dataclass(frozen=True)
class Verdict:
    gate: Gate
    value: float
    passed: bool

    def __str__(self) -> str:
        word = "PASS" if self.passed else "MISS"
        return f"{word}  {self.gate.label}: {self.value:.2f} {self.gate.unit} ({self.gate.bound})"


def judge(result: Result) -> list[Verdict]:
    """A verdict for each gate whose metric was measured."""
    verdicts = []
    for gate in GATES:
        value = gate.value(result)
        if value is not None:
            verdicts.append(Verdict(gate, value, gate.holds(value)))
    return verdicts
