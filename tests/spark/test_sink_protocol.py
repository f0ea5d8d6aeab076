"""The exactly-once protocol step by step, each step in the place where a driver may die; without Spark around it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from cometmq.client.transaction import Decision
from cometmq.errors import InvalidArgument, PeerUnreachable, TopicNotFound
from cometmq.spark.cluster import cluster_of
from cometmq.spark.options import Words, client_of
from cometmq.spark.sink import Plan, Written
from cometmq.spark.sink_clients import close, run
from cometmq.spark.sink_ends import BatchLost, Decider
from cometmq.spark.sink_log import Manifest, SinkLog, SinkLogDamaged
from cometmq.spark.sink_sending import Piece

from .sink_kit import Served, served, until

pytestmark = pytest.mark.timeout(300)

QUERY = "0b8e6c2e-1111-4c7a-9d53-000000000001"
SCHEMA = StructType([StructField("body", BinaryType()), StructField("shardingKey", StringType())])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("server")) as running:
        yield running
        close()


class Job:
    """One query that writes to a topic of its own; each plan is what a driver makes for a batch."""

    def __init__(self, server: Served, folder: Path, topic: str) -> None:
        self.server, self.folder, self.topic = server, folder, topic
        self.given = {
            "namesrvAddr": server.address,
            "topic": topic,
            "guarantee": "exactly-once",
            "sinkLog": str(folder / "sink"),
        }
        server.create(topic)

    def plan(self, **more: str) -> Plan:
        return Plan.of({**self.given, **more}, SCHEMA, False, is_stream=True)

    def write(self, plan: Plan, batch: int, partition: int = 0, rows: int = 20, key: str | None = None) -> Written:
        bodies = [f"{batch}-{partition}-{number}".encode() for number in range(rows)]
        columns = [pyarrow.array(bodies), pyarrow.array([key] * rows, pyarrow.string())]
        arrow = pyarrow.record_batch(columns, names=["body", "shardingKey"])
        return plan.write(iter([arrow]), Piece(QUERY, batch, partition))

    def bodies(self) -> list[str]:
        return [record.body.decode() for record in self.server.records(self.topic)]

    def expect(self, *batches: int, partitions: int = 1, rows: int = 20) -> None:
        found = Counter(self.bodies())
        wanted = [f"{batch}-{part}-{row}" for batch in batches for part in range(partitions) for row in range(rows)]
        assert found == Counter(wanted)

    @property
    def log(self) -> SinkLog:
        return SinkLog.at(self.given["sinkLog"])


@pytest.fixture
def job(server: Served, tmp_path: Path) -> Job:
    return Job(server, tmp_path, f"sink_{tmp_path.name}")


def test_nothing_is_seen_before_the_commit_and_everything_after_it(job: Job) -> None:
    plan = job.plan()
    written = [job.write(plan, 0, partition) for partition in range(3)]
    assert job.bodies() == []
    job.plan().commit(written)
    job.expect(0, partitions=3)
    assert "__COMET_PATIENT" not in job.server.records(job.topic)[0].properties


def test_a_driver_that_dies_before_the_manifest_has_sent_nothing(job: Job) -> None:
    job.write(job.plan(), 0)  # its driver is gone; the batch is run again
    plan = job.plan()
    job.plan().commit([job.write(plan, 0)])
    job.expect(0)


def test_a_driver_that_dies_behind_the_manifest_has_sent_everything(job: Job) -> None:
    plan = job.plan()
    written = [job.write(plan, 0, partition) for partition in range(2)]
    decided = _decided(job, written)
    assert job.bodies() == []
    again = job.plan()
    replayed = [job.write(again, 0, partition) for partition in range(2)]
    assert all(one.attempt is None and one.count == 0 for one in replayed)
    job.plan().commit(replayed)
    job.plan().commit(replayed)
    job.expect(0, partitions=2)
    assert job.log.is_finished(decided)


def test_a_driver_that_dies_between_two_ends_is_taken_up_there(job: Job) -> None:
    written = [job.write(job.plan(), 0, partition) for partition in range(2)]
    decided = _decided(job, written)
    half = replace(decided, attempts=decided.attempts[:1])
    run(lambda: Decider(job.plan().options)._end(half, Decision.COMMIT))
    assert len(job.bodies()) == 20
    job.plan().commit([job.write(job.plan(), 0, partition) for partition in range(2)])
    job.expect(0, partitions=2)


def test_of_two_drivers_the_first_manifest_counts(job: Job) -> None:
    slow, quick = job.plan(), job.plan()
    slow_wrote = [job.write(slow, 0)]
    job.plan().commit([job.write(quick, 0)])
    job.plan().commit(slow_wrote)
    job.expect(0)


def test_brokers_are_answered_from_the_log(job: Job) -> None:
    """What lost is rolled back, what is listed comes in order, what is undecided waits; without any further commit."""
    plan = job.plan()
    lost = job.write(plan, 0)
    job.plan().commit([job.write(plan, 0)])
    listed = job.write(plan, 1, key="same")
    _decided(job, [listed])  # and its driver died
    job.write(plan, 2)  # undecided
    until(lambda: len(job.bodies()) == 40)
    until(lambda: job.server.open_halves(job.topic) == 20)
    job.expect(0, 1)
    mine = [body for body in job.bodies() if body.startswith("1-")]
    assert mine == [f"1-0-{number}" for number in range(20)]
    assert lost.attempt is not None
    job.plan().commit([job.write(job.plan(), 2)])
    job.expect(0, 1, 2)


def test_commits_go_in_the_order_of_rows(job: Job) -> None:
    job.plan().commit([job.write(job.plan(), 0, rows=3000, key="same")])
    assert job.bodies() == [f"0-0-{number}" for number in range(3000)]


def test_the_broker_is_killed_at_each_step(job: Job) -> None:
    job.plan().commit([job.write(job.plan(), 0)])
    written = [job.write(job.plan(), 1)]
    _restart(job)
    _decided(job, written)
    replayed = [job.write(job.plan(), 1)]
    assert replayed[0].attempt is None
    job.plan().commit(replayed)
    _restart(job)
    for batch in (0, 1):
        manifest = job.log.find(QUERY, batch)
        assert manifest is not None
        (job.log.folder / QUERY / f"{batch:020}.done").unlink()
        job.plan().commit([Written(QUERY, batch, None, 0)])  # once more, to a broker that remembers nothing
    job.expect(0, 1)


def test_a_batch_that_is_planned_while_no_broker_is_there_waits_for_one(job: Job) -> None:
    """A topic that no name server knows then is not an absent one; tasks in new processes have no route of before."""
    cluster = cluster_of(client_of(Words(job.given)))
    job.server.broker.kill()
    until(lambda: cluster.route(job.topic) is None)
    close()
    with pytest.raises(PeerUnreachable, match="no broker is registered"):
        job.plan(retryTimeoutMs="0")
    start = threading.Thread(target=job.server.broker.start)
    start.start()
    plan = job.plan()
    start.join()
    job.plan().commit([job.write(plan, 0)])
    job.expect(0)
    with pytest.raises(TopicNotFound, match="absent"):
        job.plan(topic="absent")


@pytest.mark.parametrize("exactly", [False, True])
def test_tasks_wait_for_brokers(job: Job, exactly: bool) -> None:
    plan = job.plan()
    if not exactly:
        plan = replace(plan, options=replace(plan.options, sink_log=None))
    cluster = cluster_of(client_of(Words(job.given)))
    job.server.broker.kill()
    until(lambda: cluster.route(job.topic) is None)
    close()
    start = threading.Thread(target=job.server.broker.start)
    start.start()
    written = job.write(plan, 0)
    start.join()
    plan.commit([written])
    job.expect(0)


def test_an_aborted_batch_is_dropped_unless_it_is_decided(job: Job) -> None:
    plan = job.plan()
    dropped = job.write(plan, 0)
    plan.abort([dropped, None])
    until(lambda: job.server.open_halves(job.topic) == 0)
    kept = job.write(plan, 0)
    _decided(job, [kept])
    plan.abort([kept])
    plan.commit([Written(QUERY, 0, None, 0)])
    job.expect(0)


def test_batches_without_rows_and_long_histories(job: Job) -> None:
    plan = job.plan()
    plan.commit([])
    plan.commit([job.write(plan, 0, rows=0)])
    assert job.log.listed() == {}
    for batch in range(1, 15):
        job.plan().commit([job.write(job.plan(), batch, rows=2)])
    assert len(list((job.log.folder / QUERY).glob("*.manifest"))) <= 11
    assert job.log.listed() == {QUERY: 14}
    job.expect(*range(1, 15), rows=2)


def test_what_was_lost_is_said_and_can_be_left(job: Job) -> None:
    written = job.write(job.plan(), 0)
    assert written.attempt is not None
    job.plan().abort([written])  # somebody rolled it back
    _decided(job, [written])
    with pytest.raises(BatchLost, match="20 cannot be: 20 were rolled back"):
        job.plan().commit([Written(QUERY, 0, None, 0)])
    (job.log.folder / QUERY / f"{0:020}.done").touch()
    job.plan().commit([Written(QUERY, 0, None, 0)])
    job.expect()


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"version": 9}\n', b"\xff\n", None])
def test_a_damaged_manifest_is_no_missing_one(job: Job, damage: bytes | None) -> None:
    job.plan().commit([job.write(job.plan(), 0)])
    (path,) = (job.log.folder / QUERY).glob("*.manifest")
    data = path.read_bytes()
    path.write_bytes(data[:-1] if damage is None else damage)
    with pytest.raises(SinkLogDamaged):
        job.log.find(QUERY, 0)
    (job.log.folder / QUERY / f"{0:020}.done").unlink()
    with pytest.raises(SinkLogDamaged):
        job.plan().commit([Written(QUERY, 0, None, 0)])


@pytest.mark.parametrize("where", ["hdfs://host/x", "s3a://bucket/x", "relative/path", "file://host/x", "/proc/1/x"])
def test_logs_that_cannot_be(job: Job, where: str) -> None:
    with pytest.raises(InvalidArgument, match="sinkLog"):
        job.plan(sinkLog=where)


def test_a_file_address_will_do(job: Job) -> None:
    plan = job.plan(sinkLog=f"file://{job.folder}/an%20other")
    assert (job.folder / "an other" / "id").exists()
    assert plan.options.group.startswith("spark-")


def test_a_manifest_can_be_read_by_people(job: Job) -> None:
    job.plan().commit([job.write(job.plan(), 0)])
    (path,) = (job.log.folder / QUERY).glob("*.manifest")
    head = json.loads(path.read_bytes().partition(b"\n")[0])
    assert head["query"] == QUERY
    assert head["parts"][0]["topics"] == [job.topic]


def _decided(job: Job, written: list[Written]) -> Manifest:
    """What a driver has written down when it dies before it ends anything."""
    attempts = tuple(one.attempt for one in written if one.attempt is not None)
    return job.log.decide(Manifest(QUERY, written[0].batch, job.plan().options.group, attempts))


def _restart(job: Job) -> None:
    job.server.broker.kill()
    job.server.broker.start()
