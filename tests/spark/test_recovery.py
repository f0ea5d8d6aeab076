"""What may happen to a stream on `local[2]`: every number is there once. `test_kills.py` is the harder half."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.original import Cluster, CometBroker
from tests.spark.kit import Server, Stream, numbers_of, read_all, read_tasks, reader_of
from tests.spark.standalone import processes

from cometmq.errors import PeerUnreachable
from cometmq.model.sysflag import READ_WRITE
from cometmq.net.pool import connect
from cometmq.spark.cluster import cluster_of
from cometmq.spark.options import Words, client_of
from cometmq.wire.requests.admin import CreateTopic

pytestmark = pytest.mark.timeout(900)

MANY = 20_000
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


def test_a_stream_outlives_kills_and_finds_what_is_new(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    """A broker and workers of tasks are killed; queues and another broker come while the stream runs."""
    server = Server("comet", cluster.namesrv_addr)
    topic = server.topic(2)
    server.send(topic, range(10_000), queues=2)
    query = (
        spark.readStream.format("rocketmq")
        .options(**server.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2_500))
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
            until(lambda: done() >= 10_000 or not query.isActive, "what was sent at first")
        server.make(topic, 4)  # two queues more
        server.send(topic, range(10_000, 15_000), queues=4)
        with CometBroker(tmp_path / "other", cluster.addrs(), name="broker-b") as other:
            create(other, topic)
            server.send(topic, range(15_000, MANY), queues=2, broker="broker-b")
            until(lambda: done() >= MANY or not query.isActive, "all messages")
    finally:
        query.stop()
    assert query.exception() is None
    number = "cast(cast(body AS string) AS bigint)"
    rows = spark.read.parquet(str(tmp_path / "rows"))
    (row,) = rows.selectExpr("count(*)", f"count(DISTINCT {number})", f"sum({number})", f"max({number})").collect()
    assert tuple(row) == (MANY, MANY, MANY * (MANY - 1) // 2, MANY - 1)


def create(broker: CometBroker, topic: str) -> None:
    async def run() -> None:
        channel = await connect(broker.addr)
        try:
            await channel.call(CreateTopic(topic, 2, 2, READ_WRITE, "SINGLE_TAG", "TBW102"))
        finally:
            channel.close()

    asyncio.run(run())


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


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_read_that_is_planned_while_no_broker_is_there_waits_for_one(cluster: Cluster, is_stream: bool) -> None:
    """No name server knows a topic then; that is not a topic that does not exist."""
    server = Server("comet", cluster.namesrv_addr)
    topic = server.topic()
    server.send(topic, range(100))
    options = server.options(subscribe=topic, startingOffsets="earliest")
    cluster.broker.kill()
    until(lambda: cluster_of(client_of(Words(options))).route(topic) is None, "the broker is forgotten")
    with pytest.raises(PeerUnreachable, match="no broker is registered"):
        read_all({**options, "retryTimeoutMs": "0"})
    start = threading.Thread(target=cluster.broker.start)
    start.start()
    found = Stream(options).rest() if is_stream else [numbers_of(read_all(options))]
    start.join()
    assert found == [list(range(100))]
