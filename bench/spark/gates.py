"""The figures that are shown and what must hold of them, as data."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final

from bench.results import Result
from bench.spark.loads import FILES, READ, READ_ALL, SINK, SINK_EXACTLY_ONCE, STREAM, SideName


@dataclass(frozen=True)
class Figure:
    """A number of CometMQ's, and the load of Kafka's that it stands beside; "" where there is none."""

    key: str
    label: str
    load: str
    kafka_load: str = ""
    field: str = "rate_per_s"
    unit: str = "rows/s"

    def values(self, result: Result, side: SideName) -> list[float]:
        load = self.kafka_load if side == "kafka" else self.load
        return result.values(side, f"spark_{load}", self.field)

    def ratio(self, result: Result) -> float | None:
        kafka, comet = self.values(result, "kafka"), self.values(result, "comet")
        return statistics.median(comet) / statistics.median(kafka) if kafka and comet else None


def _memory(load: str, label: str) -> Figure:
    return Figure(f"memory_{load}", f"Memory of a Python worker, {label}", load, "", "worker_anonymous_mb", "MB")


FIGURES: Final = (
    Figure("read", "Batch read, the columns offset and body", READ, READ),
    Figure("read_all", "Batch read, all columns", READ_ALL, READ),
    Figure("files", "Batch read of the store's files", FILES),
    Figure("stream", "Streaming read, four batches", STREAM, STREAM),
    Figure("sink", "Sink", SINK, SINK),
    Figure("sink_exactly_once", "Sink, exactly once", SINK_EXACTLY_ONCE),
    _memory(READ, "batch read"),
    _memory(READ_ALL, "batch read, all columns"),
    _memory(FILES, "the store's files"),
    _memory(STREAM, "streaming read"),
    _memory(SINK, "sink"),
    _memory(SINK_EXACTLY_ONCE, "sink, exactly once"),
)
BY_KEY: Final = {figure.key: figure for figure in FIGURES}


@dataclass(frozen=True)
class Gate:
    """A bound on CometMQ's median; `beside_kafka` in units of Kafka's. Of memory the highest run counts."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None
    beside_kafka: bool = False

    @property
    def unit(self) -> str:
        return "×" if self.beside_kafka else BY_KEY[self.figure].unit

    @property
    def bound(self) -> str:
        return f"≥ {self.at_least:,g} {self.unit}" if self.at_least is not None else f"≤ {self.at_most:,g} {self.unit}"

    def value(self, result: Result) -> float | None:
        """What is judged."""
        figure = BY_KEY[self.figure]
        if self.beside_kafka:
            return figure.ratio(result)
        values = figure.values(result, "comet")
        if not values:
            return None
        return max(values) if self.at_most is not None else statistics.median(values)

    def holds(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


MEMORY_MAX_MB: Final = 256.0
GATES: Final = (
    Gate("read", at_least=0.7, beside_kafka=True),
    Gate("files", at_least=300_000),
    *(Gate(figure.key, at_most=MEMORY_MAX_MB) for figure in FIGURES if figure.unit == "MB"),
)


@dataclass(frozen=True)
class Verdict:
    gate: Gate
    value: float
    passed: bool

    def __str__(self) -> str:
        shown = f"{self.value:.2f}" if self.gate.beside_kafka else f"{self.value:,.0f}"
        label = BY_KEY[self.gate.figure].label
        return f"{'PASS' if self.passed else 'MISS'}  {label}: {shown} {self.gate.unit} ({self.gate.bound})"


def judge(result: Result) -> list[Verdict]:
    """A verdict for each gate whose figure was measured."""
    found = ((gate, gate.value(result)) for gate in GATES)
    return [Verdict(gate, value, gate.holds(value)) for gate, value in found if value is not None]
