"""The page of a result: a table, the gates and the chart, written between two marks of docs/performance.md.

What stands outside the marks is prose and is left alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench import chart
from bench.gates import GATES, judge
from bench.machine import ROOT
from bench.metrics import METRICS, Metric
from bench.results import Result
from bench.servers import LABELS

PAGE: Final = ROOT / "docs" / "performance.md"
BEGIN: Final = "<!-- bench: begin, written by `python -m bench report` -->"
END: Final = "<!-- bench: end -->"


def write(result: Result, page: Path = PAGE) -> None:
    """Put the result into the page and its chart beside it."""
    picture = page.with_suffix(".svg")
    middle = f"![CometMQ beside Apache RocketMQ]({picture.name})\n\n{table(result)}\n\n{_facts(result)}"
    put_between(page, BEGIN, END, middle)
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
    verdicts = {verdict.gate.metric: verdict for verdict in judge(result)}
    bounds = {gate.metric: gate.bound for gate in GATES}
    lines = [
        f"| | {LABELS['java']} | {LABELS['comet']} | ratio | gate |",
        "|---|--:|--:|--:|---|",
    ]
    for metric in METRICS:
        java, comet = result.median(metric, "java"), result.median(metric, metric.comet)
        if java is None and comet is None:
            continue
        ratio = result.ratio(metric)
        verdict = verdicts.get(metric.key)
        gate = f"{bounds[metric.key]} {'PASS' if verdict.passed else 'MISS'}" if verdict else ""
        lines.append(
            f"| {metric.label} ({metric.unit}) | {_spread(result, metric, 'java', java)} "
            f"| {_spread(result, metric, metric.comet, comet)} | {f'{ratio:.2f} ×' if ratio else ''} | {gate} |"
        )
    return "\n".join(lines)


def _spread(result: Result, metric: Metric, side: str, median: float | None) -> str:
    """The median, and from where to where the runs went."""
    if median is None:
        return ""
    values = result.values(side, metric.workload, metric.field)  # type: ignore[arg-type]
    text = chart.number(median, metric.unit)
    if len(values) > 1:
        text += f" ({chart.number(min(values), metric.unit)}–{chart.number(max(values), metric.unit)})"
    return text


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
