"""Spark's part of the benchmark: loads are complete, figures are judged, memory is that of the workers alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench import results
from bench.results import Result, Run
from bench.spark import __main__ as command
from bench.spark import kafka, report
from bench.spark.__main__ import main
from bench.spark.gates import FIGURES, GATES, judge
from bench.spark.loads import LOADS, SIDES, Job, Places, job_of
from bench.spark.runner import Plan, measure_turn
from bench.spark.workers import WorkerMemory
from bench.tally import Invalid
from bench.workloads import BODY_SIZE

PLACES = Places("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", Path("store"), Path("scratch"), 1_001, 100)
SETTINGS = {
    "rows": 1000, "sink_rows": 100, "body_size": 1024, "queues": 8, "cores": 2, "spark": "4.3.0", "kafka": "4.3.1",
    "kafka_source": "4.2.0",
}  # fmt: skip


def result(comet_factor: float, memory_mb: float = 100.0, sides: tuple[str, ...] = SIDES) -> Result:
    made = Result("x", "2026-01-01T00:00:00+00:00", "abc", 7, 3, {"load_before": 0.1}, SETTINGS)
    for side in sides:
        for load in LOADS:
            if job_of(load, side, PLACES, "1") is not None:  # type: ignore[arg-type]
                rate = 400_000.0 * (comet_factor if side == "comet" else 1.0)
                made.runs += [
                    Run(
                        side,
                        turn,
                        f"spark_{load}",
                        {"rate_per_s": rate * turn, "worker_anonymous_mb": memory_mb * turn},
                    )  # type: ignore[arg-type]
                    for turn in (1, 2)
                ]
    return made


def test_what_was_measured_is_judged() -> None:
    assert [verdict.passed for verdict in judge(result(0.69))] == [False] + [True] * (len(GATES) - 1)
    assert [verdict.passed for verdict in judge(result(0.55))][:2] == [False, True]
    assert [verdict.passed for verdict in judge(result(0.7, 129.0))] == [True, True] + [False] * (len(GATES) - 2)
    without = judge(result(0.1, sides=("comet",)))
    assert "read" not in {verdict.gate.figure for verdict in without}
    assert not next(verdict for verdict in without if verdict.gate.figure == "files").passed
    assert judge(result(1.0, sides=())) == []


def test_every_figure_comes_from_a_load_that_runs() -> None:
    for figure in FIGURES:
        assert job_of(figure.load, "comet", PLACES, "1") is not None
        if figure.kafka_load:
            assert job_of(figure.kafka_load, "kafka", PLACES, "1") is not None


def test_a_stream_has_four_batches_on_both_sides() -> None:
    for side in SIDES:
        job = job_of("stream", side, PLACES, "1")
        assert job is not None and job.options["maxOffsetsPerTrigger"] == "251"


def test_only_what_is_between_the_marks_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write(result(2.0), page)
    text = page.read_text()
    assert text.startswith(f"before\n{report.BEGIN}\n| |") and text.endswith(f"{report.END}\nafter\n")
    assert "| 2.00 × | ≥ 0.7 × PASS |" in text and "old" not in text and "Spark 4.3.0 on 2 cores" in text


class Failing:
    """Answers as Spark does, and not any more in the second round."""

    def __init__(self) -> None:
        self._left = 2

    def run(self, _: Job) -> dict[str, float]:
        self._left -= 1
        if self._left < 0:
            raise Invalid("Spark ended")
        return {"rows": PLACES.rows, "bytes": PLACES.rows * BODY_SIZE, "elapsed_s": 0.01, "worker_anonymous_mb": 80.0}


def test_what_was_measured_outlives_a_run_that_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(plan: Plan, into: Result) -> None:
        spark = Failing()
        for number in (1, 2):
            for load in ("read", "files"):
                measure_turn(plan, spark, load, "comet", PLACES, number, into)

    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(command, "measure", measured)
    assert main(["--sides", "comet", "--name", "spark/latest"]) == 2
    told = capsys.readouterr()
    assert "Spark ended" in told.err and "2 runs are kept" in told.err
    assert "MISS  Batch read of the store's files: 100,100 rows/s" in told.out
    kept = Result.load(tmp_path / "spark" / "latest.json")
    assert [(run.round, run.workload) for run in kept.runs] == [(1, "spark_read"), (1, "spark_files")]
    assert "Median of 1 runs" in report.section(kept)


def memory_of_a_worker(*daemon_arguments: str) -> dict[str, float]:
    """What is measured of a child with 50 MB, its parent started with these arguments."""
    worker = "data = b'x' * 50_000_000; print('ready', flush=True); import time; time.sleep(60)"
    daemon = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    command = [sys.executable, "-c", daemon, *daemon_arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            return WorkerMemory(process.pid).peak()
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_memory_is_that_of_processes_below_the_daemon() -> None:
    peak = memory_of_a_worker("pyspark.daemon")
    assert 50 < peak["worker_anonymous_mb"] <= peak["worker_peak_mb"] < 200
    assert memory_of_a_worker() == {"worker_peak_mb": 0.0, "worker_anonymous_mb": 0.0}


def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    assert main(["--report"]) == 2
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--quick"]) == 2
    assert "install a JDK" in capsys.readouterr().err
    (tmp_path / "java").touch(mode=0o755)
    monkeypatch.setenv("COMETMQ_CACHE", str(tmp_path))
    assert main(["--quick"]) == 2
    assert "install Apache Maven" in capsys.readouterr().err
    kafka.check_tools(("comet",))


@pytest.mark.parametrize("wrong", [["--only", "reads"], ["--sides", "java"], ["--rows", "0"], ["--rounds", "x"]])
def test_wrong_arguments(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--quick", *wrong])
