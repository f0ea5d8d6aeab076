"""Kills while a topic of 100,000 messages is archived: afterwards every number is there once.

A broker and workers of tasks are killed under a running stream, which also gets queues that were not there when it
began. A driver is killed in the middle of a batch and started again on its checkpoint; then an executor of a cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.original import Cluster
from tests.spark.kit import Server, numbers_of, read_tasks, reader_of
from tests.spark.standalone import environment, processes, standalone_cluster

pytestmark = pytest.mark.timeout(900)

MANY = 100_000
WAIT_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster("comet", tmp_path_factory.mktemp("comet")) as running:
        yield running


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"{what}: not within {WAIT_S} s"
        time.sleep(0.02)


def exact(frame: DataFrame) -> None:
    """Every number from 0 to MANY - 1, once."""
    number = "cast(cast(body AS string) AS bigint)"
    (row,) = frame.selectExpr("count(*)", f"count(DISTINCT {number})", f"sum({number})", f"max({number})").collect()
    assert tuple(row) == (MANY, MANY, MANY * (MANY - 1) // 2, MANY - 1)


def test_kills_under_a_running_stream(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    server = Server("comet", cluster.namesrv_addr)
    topic = server.topic(2)
    server.send(topic, range(40_000), queues=2)
    query = (
        spark.readStream.format("rocketmq")
        .options(**server.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=8_000))
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        done = lambda: sum(progress.numInputRows for progress in query.recentProgress)  # noqa: E731
        until(lambda: done() > 0 or not query.isActive, "the first batch")
        cluster.broker.kill()
        cluster.broker.start()
        with workers_killed(spark):
            until(lambda: done() >= 40_000 or not query.isActive, "what was sent at first")
        server.make(topic, 4)  # two queues more
        server.send(topic, range(40_000, MANY), queues=4)
        until(lambda: done() >= MANY or not query.isActive, "all messages")
    finally:
        query.stop()
    assert query.exception() is None
    exact(spark.read.parquet(str(tmp_path / "rows")))


@contextmanager
def workers_killed(spark: SparkSession) -> Iterator[None]:
    """Kill, a few times, whatever Python runs tasks for this session."""
    is_over = threading.Event()
    killed: list[int] = []

    def run() -> None:
        while len(killed) < 3 and not is_over.wait(0.3):
            for pid in task_workers(spark)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: bool(killed), "a worker to kill")
        yield
    finally:
        is_over.set()
        thread.join()


def task_workers(spark: SparkSession) -> list[int]:
    """The children of the Python daemons that this session's JVM has started."""
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    found = list(processes())
    daemons = {pid for pid, parent, command in found if parent == jvm and b"pyspark.daemon" in command}
    return sorted(pid for pid, parent, _ in found if parent in daemons)


def test_a_driver_and_then_an_executor_are_killed(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    """The driver in the middle of its second batch; then, started again on its checkpoint, now on a cluster of two
    workers, one of its executors."""
    server = Server("comet", cluster.namesrv_addr)
    topic = server.topic()
    server.send(topic, range(MANY))
    offsets, commits = tmp_path / "checkpoint" / "offsets", tmp_path / "checkpoint" / "commits"
    program = [sys.executable, str(Path(__file__).with_name("archiving_driver.py"))]
    arguments = [server.namesrv, topic, str(tmp_path), "12500"]
    with started([*program, "local[2]", *arguments]) as driver:
        until(lambda: (offsets / "1").exists() or driver.poll() is not None, "the second batch")
    assert driver.returncode == -signal.SIGKILL
    assert not (commits / "7").exists()  # it had more to do
    with standalone_cluster(tmp_path) as workers, started([*program, workers.url, *arguments]) as driver:
        until(lambda: (commits / "2").exists() or driver.poll() is not None, "a batch after the restart")
        killed = workers.executors()[:1]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        assert driver.wait(WAIT_S) == 0
    assert killed
    assert (commits / "7").exists()
    exact(spark.read.parquet(str(tmp_path / "rows")))


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A driver that is killed at the end, with all that it started."""
    with subprocess.Popen(command, start_new_session=True, env=environment(), stderr=subprocess.DEVNULL) as driver:
        try:
            yield driver
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)


def test_a_broker_lost_for_a_moment_costs_no_row(cluster: Cluster) -> None:
    """Tasks that were planned before a restart read over it, with the connections that they had."""
    server = Server("comet", cluster.namesrv_addr)
    topic = server.topic()
    server.send(topic, range(10_000))
    reader = reader_of(server.options(subscribe=topic, maxRecordsPerPartition=1_000))
    first, *others = reader.partitions()
    before = read_tasks(reader, [first])
    cluster.broker.kill()
    start = threading.Thread(target=cluster.broker.start)
    start.start()
    after = read_tasks(reader, others)
    start.join()
    assert sorted(numbers_of(before) + numbers_of(after)) == list(range(10_000))
