"""Spark's section of docs/performance.md, between two marks of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.chart import spread
from bench.report import PAGE, put_between
from bench.results import Result
from bench.spark.gates import FIGURES, judge

BEGIN: Final = "<!-- bench spark: begin, written by `python -m bench.spark` -->"
END: Final = "<!-- bench spark: end -->"


def table(result: Result) -> str:
    verdicts = {verdict.gate.figure: verdict for verdict in judge(result)}
    kafka = f"Kafka {result.settings['kafka']}, Spark's source"
    lines = [f"| | {kafka} | CometMQ | ratio | gate | CometMQ, pure Python |", "|---|--:|--:|--:|---|--:|"]
    for figure in FIGURES:
        kafka_values, comet, pure = (figure.values(result, side) for side in ("kafka", "comet", "pure"))
        if not (kafka_values or comet or pure):
            continue
        ratio, verdict = figure.ratio(result), verdicts.get(figure.key)
        cells = [
            f"{figure.label} ({figure.unit})",
            spread(kafka_values, figure.unit),
            spread(comet, figure.unit),
            f"{ratio:.2f} ×" if ratio else "",
            f"{verdict.gate.bound} {'PASS' if verdict.passed else 'MISS'}" if verdict else "",
            spread(pure, figure.unit),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def section(result: Result) -> str:
    settings = result.settings
    rounds = max((run.round for run in result.runs), default=0)  # fewer than were meant, if it was broken off
    facts = (
        f"{settings['rows']:,} messages of {settings['body_size']} bytes in {settings['queues']} queues; sinks write "
        f"{settings['sink_rows']:,}. Spark {settings['spark']} on {settings['cores']} cores, its Kafka source "
        f"{settings['kafka_source']}. Median of {rounds} runs (in brackets: lowest to highest); pure Python "
        f"once. Commit `{result.commit}`, {result.date[:10]}, seed {result.seed}. "
        f"Load average before the run: {result.machine['load_before']}."
    )
    return f"{table(result)}\n\n{facts}"


def write(result: Result, page: Path = PAGE) -> None:
    """Put the result into the page."""
    put_between(page, BEGIN, END, section(result))
