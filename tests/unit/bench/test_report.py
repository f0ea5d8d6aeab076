"""Medians, gates, the page and its picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench import chart, report, results
from bench.__main__ import main
from bench.gates import GATES, Gate, judge
from bench.metrics import BY_KEY, METRICS
from bench.results import Result, Run
from bench.runner import TURN_ATTEMPTS, order, until_valid
from bench.tally import Invalid, percentile_ms

MACHINE = {
    "cores": 2, "cpu": "a CPU", "memory_gb": 8, "system": "Linux 6", "python": "3.12", "uvloop": "1", "orjson": "1",
    "load_before": 0.1,
}  # fmt: skip


def result(comet_factor: float = 1.0) -> Result:
    """Java at 1, 2, 3, 4, 100 in every number (median 3); CometMQ at `comet_factor` times that."""
    made = Result("t", "2026-01-01T00:00:00+00:00", "abc", 1, 5, MACHINE, {})
    for metric in METRICS:
        for number, value in enumerate((1.0, 100.0, 3.0, 2.0, 4.0), 1):
            made.runs.append(Run("java", number, metric.workload, {metric.field: value}))
            made.runs.append(Run(metric.comet, number, metric.workload, {metric.field: value * comet_factor}))
            made.runs.append(Run("pure", number, metric.workload, {metric.field: value * comet_factor / 2}))
    return made


def test_what_was_measured_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    run = Run("java", 1, "sends", {"rate_per_s": 1.0})
    made = Result("sdk/latest", "2026-01-01T00:00:00+00:00", "abc", 1, 5, MACHINE, {})
    with pytest.raises(Invalid), made.kept():
        raise Invalid("before anything was measured")
    assert not list(tmp_path.rglob("*.json"))
    with pytest.raises(Invalid), made.kept():
        made.runs.append(run)
        raise Invalid("late")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")] == [
        "scratch/sdk-latest-unfinished.json"
    ]
    whole = Result("sdk/latest", "2026-01-01T00:00:00+00:00", "abc", 1, 5, MACHINE, {})
    with whole.kept():
        whole.runs.append(run)
    assert Result.load(tmp_path / "sdk/latest.json") == whole


def test_an_invalid_turn_is_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    turns = [Invalid("busy"), Invalid("busy"), {"messages": 1.0}]

    def turn() -> dict[str, float]:
        found = turns.pop(0)
        if isinstance(found, Invalid):
            raise found
        return found

    assert until_valid(turn, "round 1/5") == {"messages": 1.0}
    assert capsys.readouterr().err.count("round 1/5 again, as busy") == 2
    turns[:] = [Invalid("busy")] * TURN_ATTEMPTS
    with pytest.raises(Invalid):
        until_valid(turn, "round 1/5")


def test_median_and_ratio() -> None:
    assert result().median(BY_KEY["sends"], "java") == 3.0
    assert result(0.5).ratio(BY_KEY["sends"]) == 0.5


@pytest.mark.parametrize(
    ("gate", "ratio", "holds"),
    [
        (Gate("sends", at_least=1.0), 1.0, True),
        (Gate("sends", at_least=1.0), 0.999, False),
        (Gate("memory", at_most=0.25), 0.25, True),
        (Gate("memory", at_most=0.25), 0.26, False),
    ],
)
def test_bounds_are_inclusive(gate: Gate, ratio: float, holds: bool) -> None:
    assert gate.holds(ratio) is holds


def test_no_single_run_may_be_beyond_some_gates() -> None:
    made = result()
    late = [run for run in made.runs if run.side == "comet" and "worst_ms" in run.values]
    assert all(verdict.passed for verdict in judge(made) if verdict.gate.metric == "timers_worst")
    late[0].values["worst_ms"] = 1_000.5
    assert [v.value for v in judge(made) if v.gate.metric == "timers_worst" and not v.passed] == [1_000.5]
    early = [verdict for verdict in judge(made) if verdict.gate.metric == "timers_early"]
    assert [verdict.passed for verdict in early] == [False]  # a median of 3 messages
    for run in made.runs:
        run.values.update(early=0) if "early" in run.values else None
    assert [verdict.passed for verdict in judge(made) if verdict.gate.metric == "timers_early"] == [True]


def test_ratios_need_both_sides() -> None:
    assert len(judge(result())) == len(GATES)
    one_sided = result()
    one_sided.runs = [run for run in one_sided.runs if run.side != "java"]
    assert all(verdict.gate.own for verdict in judge(one_sided))
    assert "| Sends" in report.table(one_sided)


def test_a_side_that_was_not_measured_has_no_column() -> None:
    pair = result()
    pair.runs = [run for run in pair.runs if run.side != "pure"]
    assert "pure" not in report.table(pair)
    assert all(verdict.gate.side is None for verdict in judge(pair))


def test_everyone_comes_first_in_turn() -> None:
    assert [order(("java", "comet", "pure"), number)[0] for number in (1, 2, 3, 4)] == ["java", "comet", "pure", "java"]
    assert sorted(order(("java", "comet"), 2)) == ["comet", "java"]


def test_gates_name_known_metrics() -> None:
    assert {gate.metric for gate in GATES} <= BY_KEY.keys()


def test_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    made = result()
    assert Result.load(made.save()) == made
    assert results.newest() == results.path_of("t")


def test_no_result_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="make bench"):
        results.newest()
    assert main(["report"]) == 2


def test_page_keeps_its_prose(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{report.BEGIN}\nstale\n{report.END}\nafter\n")
    report.write([result(0.2)], page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "stale" not in text
    assert "| 0.20 × | ≥ 1 × MISS |" in text and "| 0.20 × | ≤ 0.25 × PASS |" in text
    assert "| CometMQ, pure Python | ratio | gate |" in text and "| 0.10 × | ≤ 0.7 × PASS |" in text
    ElementTree.parse(tmp_path / "performance-t.svg")


def test_each_result_is_a_part_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"{report.BEGIN}\n{report.END}\n")
    other = result()
    other.name, other.commit = "other", "def"
    report.write([result(), other], page)
    text = page.read_text()
    assert (
        text.index("performance-t.svg")
        < text.index("`abc`")
        < text.index("performance-other.svg")
        < text.index("`def`")
    )


def test_page_without_marks_is_not_touched(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("prose")
    with pytest.raises(ValueError, match="lost the marks"):
        report.write([result()], page)
    assert page.read_text() == "prose"


def test_the_page_in_the_tree_has_its_marks() -> None:
    text = report.PAGE.read_text(encoding="utf-8")
    assert text.index(report.BEGIN) < text.index(report.END)


def test_chart_shows_every_number() -> None:
    root = ElementTree.fromstring(chart.render(result()))
    words = " ".join(root.itertext())
    assert all(metric.label in words for metric in METRICS)


def test_percentiles() -> None:
    values = [n * 1_000_000 for n in range(1, 101)]
    assert percentile_ms(values, 0.5) == 51.0
    assert percentile_ms(values, 0.99) == 100.0
    assert percentile_ms([5_000_000], 0.99) == 5.0


@pytest.mark.parametrize(
    "arguments", [["--only", "sends,nonsense"], ["--rounds", "0"], ["--sides", "kafka"], ["--only", ""]]
)
def test_bad_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "not" in capsys.readouterr().err
