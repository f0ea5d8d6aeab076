"""The clients' section of docs/performance.md, between two marks of its own, and the gates on it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.chart import spread
from bench.report import PAGE, put_between
from bench.results import Result
from bench.sdk.programs import BY_NAME, PROGRAMS
from bench.servers import LABELS

BEGIN: Final = "<!-- bench sdk: begin, written by `python -m bench.sdk` -->"
END: Final = "<!-- bench sdk: end -->"
COLUMNS: Final = (
    ("sdk_sends", "rate_per_s", "Sends (msg/s)"),
    ("sdk_sends", "per_cpu_s", "per second of its CPU"),
    ("sdk_push", "rate_per_s", "Push consumption (msg/s)"),
    ("sdk_push", "per_cpu_s", "per second of its CPU"),
)


@dataclass(frozen=True)
class Gate:
    """CometMQ's SDK does at least `factor` times what another client does with the same processor time."""

    other: str
    load: str
    factor: float

    def ratio(self, result: Result) -> float | None:
        ours, theirs = (
            median(result, "comet", self.load, "per_cpu_s"),
            median(result, self.other, self.load, "per_cpu_s"),
        )
        return ours / theirs if ours and theirs else None

    def verdict(self, result: Result) -> tuple[bool, str] | None:
        ratio = self.ratio(result)
        if ratio is None:
            return None
        passed = ratio >= self.factor
        what = "sends" if self.load == "sdk_sends" else "push consumption"
        words = f"{what}: {ratio:.2f} × the {BY_NAME[self.other].label}, per core (≥ {self.factor:g} ×)"
        return passed, f"{'PASS' if passed else 'MISS'}  {words}"


GATES: Final = (
    Gate("java", "sdk_sends", 0.5),
    Gate("java", "sdk_push", 0.5),
    Gate("official", "sdk_sends", 3.0),
    Gate("official", "sdk_push", 3.0),
)


def median(result: Result, client: str, load: str, field: str) -> float | None:
    values = result.values(client, load, field)  # type: ignore[arg-type]
    return statistics.median(values) if values else None


def judge(result: Result) -> list[tuple[bool, str]]:
    """A verdict for each gate whose clients were measured."""
    return [verdict for gate in GATES if (verdict := gate.verdict(result)) is not None]


def table(result: Result) -> str:
    lines = [
        f"| | {' | '.join(title for _, _, title in COLUMNS)} |",
        f"|---|{'--:|' * len(COLUMNS)}",
    ]
    for program in PROGRAMS:
        cells = [_cell(result, program.name, load, field) for load, field, _ in COLUMNS]
        if any(cells):
            name = f"{program.label}, through the Java proxy" if program.is_grpc else program.label
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(result: Result, client: str, load: str, field: str) -> str:
    return spread(result.values(client, load, field), "msg/s")  # type: ignore[arg-type]


def section(result: Result) -> str:
    settings = result.settings
    facts = (
        f"Broker: {LABELS[settings['broker']]}; {settings['body_size']} bytes each, {settings['in_flight']:,} sends "
        f"in flight. Median of {result.rounds} runs (in brackets: lowest to highest). Commit `{result.commit}`, "
        f"{result.date[:10]}, seed {result.seed}. Load average before the run: {result.machine['load_before']}."
    )
    verdicts = "\n".join(f"- {words}" for _, words in judge(result))
    return f"{table(result)}\n\n{verdicts}\n\n{facts}"


def write(result: Result, page: Path = PAGE) -> None:
    """Put the result into the page."""
    put_between(page, BEGIN, END, section(result))
