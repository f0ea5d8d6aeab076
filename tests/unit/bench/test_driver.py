"""The whole tool against a real CometMQ broker, for moments: it must not rot between releases."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import results
from bench.__main__ import main
from bench.ask import Asker, create_topic, max_offsets
from bench.driver import run_job
from bench.servers import Side
from bench.tally import Invalid
from bench.workloads import PULL_COUNT, WORKLOADS, Job, Workload

LOADS = {workload.name: workload for workload in WORKLOADS}


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    comet = Side("comet", tmp_path_factory.mktemp("bench"))
    try:
        comet.start()
        yield comet
    finally:
        comet.kill()


def job(side: Side, workload: Workload, topic: str) -> Job:
    made = Job.of(workload, side.address, 0.05, 0.2, 1, side.pids)
    return Job.from_json(dataclasses.replace(made, topic=topic).to_json())


@pytest.mark.parametrize("name", ["sends", "latency", "batches", "delivery", "timers"])
def test_what_is_acknowledged_is_stored(side: Side, name: str) -> None:
    topic = f"driver-{name}"
    with Asker(side.address) as asker:
        create_topic(asker, topic)
        tally = run_job(job(side, LOADS[name], topic))
        assert sum(max_offsets(asker, topic)) == tally.acknowledged_total > 0
    assert tally.rate_per_s > 0
    assert 0 < tally.p50_ms <= tally.p99_ms


def test_pulls_bring_whole_messages(side: Side) -> None:
    with Asker(side.address) as asker:
        create_topic(asker, "driver-pulls")
    run_job(job(side, LOADS["batches"], "driver-pulls"))
    tally = run_job(job(side, LOADS["pulls"], "driver-pulls"))
    assert tally.messages > 0
    assert tally.messages % PULL_COUNT == 0


def test_what_is_popped_is_acknowledged(side: Side) -> None:
    with Asker(side.address) as asker:
        create_topic(asker, "driver-pops")
    for _ in range(3):
        run_job(job(side, LOADS["batches"], "driver-pops"))
    assert run_job(job(side, LOADS["pops"], "driver-pops")).messages > 0


def test_pulls_from_an_empty_topic(side: Side) -> None:
    with Asker(side.address) as asker:
        create_topic(asker, "driver-empty")
    with pytest.raises(ValueError, match="send some first"):
        run_job(job(side, LOADS["pulls"], "driver-empty"))


def test_a_refused_send_makes_the_run_invalid(side: Side) -> None:
    with Asker(side.address) as asker:
        create_topic(asker, "driver-narrow", queues=1)  # the load sends to eight
    for name in ("sends", "batches"):
        with pytest.raises(Invalid, match="answered code"):
            run_job(job(side, LOADS[name], "driver-narrow"))


def test_the_whole_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    options = [
        "--quick",
        "--sides",
        "comet",
        "--only",
        "pulls,sync_sends,idle",
        "--scratch",
        str(tmp_path),
        "--seed",
        "5",
    ]
    assert any(main(options) == 0 for _ in range(3))  # on a busy machine half a second may bring nothing
    saved = json.loads((tmp_path / "scratch" / "partial.json").read_text())
    assert saved["seed"] == 5
    taken = {(run["side"], run["workload"]) for run in saved["runs"]}
    assert taken == {("comet", "pulls"), ("comet", "sync_sends"), ("comet", "idle"), ("standalone", "idle")}
    assert "Pulls" in capsys.readouterr().out
    assert not list(tmp_path.glob("cometmq-bench-*"))


def test_without_java_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["--quick"]) == 2
    assert "install a JDK" in capsys.readouterr().err
