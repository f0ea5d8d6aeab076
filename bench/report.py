"""The page of the results: tables, gates and charts, written between two marks of docs/performance.md.

A run may measure everything, or some loads: each result has a table and a chart of its own, with what it depends on.
What stands outside the marks is prose and is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import chart
from bench.gates import judge
from bench.machine import ROOT
from bench.metrics import METRICS, Metric, Source
from bench.results import Result
from bench.servers import LABELS

PAGE: Final = ROOT / "docs" / "performance.md"
BEGIN: Final = "<!-- bench: begin, written by `python -m bench report` -->"
END: Final = "<!-- bench: end -->"


def write(results: Sequence[Result], page: Path = PAGE) -> None:
    """Put the results into the page and their charts beside it."""
    pictures = [page.with_name(f"{page.stem}-{result.name}.svg") for result in results]
    parts = [
        f"![CometMQ beside Apache RocketMQ]({picture.name})\n\n{table(result)}\n\n{_facts(result)}"
        for result, picture in zip(results, pictures, strict=True)
    ]
    put_between(page, BEGIN, END, "\n\n".join(parts))
    for result, picture in zip(results, pictures, strict=True):
        picture.write_text(chart.render(result), encoding="utf-8")


def put_between(page: Path, begin: str, end: str, middle: str) -> None:
    """Renew what a page says between two marks; what stands outside of them is prose and is left alone."""
    text = page.read_text(encoding="utf-8")
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"{page.name} has lost the marks that the benchmark writes between: {begin} and {end}")
    page.write_text(f"{before}{begin}\n{middle}\n{end}{after}", encoding="utf-8")


def table(result: Result) -> str:
    """Medians side by side, with the gates that are set on them."""
    verdicts = {(verdict.gate.metric, verdict.gate.side): verdict for verdict in judge(result)}
    columns: list[Source | None] = [None]  # whoever stands for CometMQ in a metric, then those beside it
    if any(run.side == "pure" for run in result.runs):
        columns.append("pure")
    heads = "".join(f" | {LABELS[side or 'comet']} | ratio | gate" for side in columns)
    lines = [f"| | {LABELS['java']}{heads} |", "|---|--:" + "|--:|--:|---" * len(columns) + "|"]
    for metric in METRICS:
        if result.median(metric, "java") is None and result.median(metric, metric.comet) is None:
            continue
        cells = [f"{metric.label} ({metric.unit})", _spread(result, metric, "java")]
        for side in columns:
            ratio, verdict = result.ratio(metric, side), verdicts.get((metric.key, side))
            cells += [
                _spread(result, metric, side or metric.comet),
                f"{ratio:.2f} ×" if ratio else "",
                f"{verdict.gate.bound} {'PASS' if verdict.passed else 'MISS'}" if verdict else "",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(result: Result, metric: Metric, side: Source) -> str:
    return chart.spread(result.values(side, metric.workload, metric.field), metric.unit)


def _facts(result: Result) -> str:
    machine = result.machine
    busy = int(sum(result.values("java", "sends", "busy")))
    sent = int(sum(result.values("java", "sends", "messages")))
    lines = [
        (
            f"Median of {result.rounds} runs a side (in brackets: lowest to highest). Commit `{result.commit}`, "
            f"{result.date[:10]}, seed {result.seed}."
        ),
        (
            f"Machine: {machine['cores']} cores, {machine['cpu']}, {machine['memory_gb']} GB, {machine['system']}; "
            f"Python {machine['python']}, uvloop {machine['uvloop']}, orjson {machine['orjson']}; "
            f"{machine.get('java', 'no Java')}."
        ),
        f"Load average before the run: {machine['load_before']}.",
    ]
    if busy:
        lines.append(
            f'The Java broker answered {busy:,} sends with "busy" while it took {sent:,}; they count for nothing.'
        )
    return "\n".join(lines)
