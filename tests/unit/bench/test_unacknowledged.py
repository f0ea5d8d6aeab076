"""The short version of `python -m bench.unacknowledged`, and how it is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import results, unacknowledged
from bench.results import Result, Run


def result_of(**changed: float) -> Result:
    values = {"messages": 1_000.0, "came_back": 1_000.0, "first_mb": 40.0, "peak_mb": 90.0, "grown_mb": 50.0}
    result = Result.begin("scratch/unacknowledged", 7, 1, {"limit_mb": 50})
    result.runs.append(Run("comet", 1, "unacknowledged", {**values, **changed}))
    return result


@pytest.mark.parametrize(
    ("changed", "passed"),
    [
        ({}, [True, True]),
        ({"grown_mb": 50.1}, [False, True]),
        ({"came_back": 999}, [True, False]),
        ({"came_back": 1_001}, [True, False]),
    ],
)
def test_verdicts(changed: dict[str, float], passed: list[bool]) -> None:
    assert [held for held, _ in unacknowledged.judge(result_of(**changed))] == passed


def test_the_page_says_what_was_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{unacknowledged.BEGIN}\nold\n{unacknowledged.END}\nafter\n")
    unacknowledged.write(result_of(came_back=999), page)
    text = page.read_text()
    assert "MISS  1,000 messages popped, none acknowledged, 999 came back" in text
    assert "seed 7" in text
    assert "old" not in text


def test_pops_that_take_too_long_measure_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    assert unacknowledged.main(["--count", "50000", "--invisible", "2", "--scratch", str(tmp_path)]) == 2
    assert "give more --invisible" in capsys.readouterr().err
    assert list(tmp_path.rglob("*.json")) == []


def test_all_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    options = ["--count", "1000", "--invisible", "6", "--limit-mb", "30", "--seed", "7", "--scratch", str(tmp_path)]
    assert unacknowledged.main(options) == 0, capsys.readouterr()
    (run,) = json.loads((tmp_path / "scratch" / "unacknowledged.json").read_text())["runs"]
    assert run["values"]["came_back"] == 1_000
