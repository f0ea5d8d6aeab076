"""The clients' section of the page: medians, gates, and marks that must be there."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.results import Result, Run
from bench.sdk import report
from bench.sdk.programs import PROGRAMS


def result(**per_cpu_s: float) -> Result:
    runs = [
        Run(client, round_number, load, {"rate_per_s": 1000.0, "per_cpu_s": value * round_number})  # type: ignore[arg-type]
        for client, value in per_cpu_s.items()
        for round_number in (1, 2, 3)
        for load in ("sdk_sends", "sdk_push")
    ]
    settings = {"broker": "java", "body_size": 1024, "in_flight": 1000}
    return Result("x", "2026-01-01T00:00:00+00:00", "abc", 7, 3, {"load_before": 0.1}, settings, runs)


def test_gates() -> None:
    verdicts = report.judge(result(comet=10.0, java=19.0, official=4.0))
    assert [passed for passed, _ in verdicts] == [True, True, False, False]
    assert "2.50 ×" in verdicts[2][1]
    assert report.judge(result(comet=10.0)) == []


def test_the_proxy_is_named_beside_the_figure() -> None:
    lines = report.table(result(comet=10.0, java=19.0, official=4.0)).splitlines()
    assert len(lines) == 2 + len(PROGRAMS)
    assert ["through the Java proxy" in line for line in lines[2:]] == [program.is_grpc for program in PROGRAMS]
    assert "20 (10–30)" in lines[-1]


def test_only_what_is_between_the_marks_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write(result(comet=10.0, java=19.0), page)
    text = page.read_text()
    assert text.startswith(f"before\n{report.BEGIN}\n| |")
    assert text.endswith(f"{report.END}\nafter\n")
    assert "old" not in text
    page.write_text("nothing")
    with pytest.raises(ValueError, match="marks"):
        report.write(result(comet=10.0), page)
