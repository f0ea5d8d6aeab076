"""The exactly-once protocol step by step, each step in the place where a driver may die; without Spark around it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
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
from cometmq.spark import sink_log
from cometmq.spark.cluster import cluster_of
from cometmq.spark.options import Words, client_of
from cometmq.spark.sink import Plan, Written
from cometmq.spark.sink_clients import close, run
from cometmq.spark.sink_ends import BatchLost, Decider
from cometmq.spark.sink_log import BatchChanged, BatchUnknown, SinkLog, SinkLogDamaged, SinkLogUnusable
from cometmq.spark.sink_manifest import Manifest
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
        return plan.write(iter([arrow_of(batch, partition, rows, key)]), Piece(QUERY, batch, partition))

    def run(self, batch: int, rows: int = 20) -> None:
        """A batch as a whole, as a driver runs it."""
        self.plan().commit([self.write(self.plan(), batch, rows=rows)])

    def write_table(self, rows: int = 20, **more: str) -> Plan:
        """A batch write as a whole; returns its plan."""
        plan = self.batch_plan(**more)
        plan.commit([plan.write(iter([arrow_of(0, 0, rows)]), Piece(plan.options.write_id, 0, 0))])
        return plan

    def batch_plan(self, **more: str) -> Plan:
        return Plan.of({**self.given, **more}, SCHEMA, False, is_stream=False)

    def bodies(self) -> list[str]:
        return [record.body.decode() for record in self.server.records(self.topic)]

    def expect(self, *batches: int, partitions: int = 1, rows: int = 20) -> None:
        found = Counter(self.bodies())
        wanted = [f"{batch}-{part}-{row}" for batch in batches for part in range(partitions) for row in range(rows)]
        assert found == Counter(wanted)

    @property
    def log(self) -> SinkLog:
        return SinkLog.at(self.given["sinkLog"])


def arrow_of(batch: int, partition: int, rows: int, key: str | None = None) -> pyarrow.RecordBatch:
    bodies = [f"{batch}-{partition}-{number}".encode() for number in range(rows)]
    columns = [pyarrow.array(bodies, pyarrow.binary()), pyarrow.array([key] * rows, pyarrow.string())]
    return pyarrow.record_batch(columns, names=["body", "shardingKey"])


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
    assert all(one.attempt is None and one.count == 20 for one in replayed)
    job.plan().commit(replayed)
    job.plan().commit(replayed)
    job.expect(0, partitions=2)
    assert job.log.is_finished(decided)


def test_a_driver_that_dies_between_two_ends_is_taken_up_there(job: Job) -> None:
    written = [job.write(job.plan(), 0, partition) for partition in range(2)]
    decided = _decided(job, written)
    half = replace(decided, attempts=decided.attempts[:1])
    run(lambda: Decider(job.plan().options)._tell(half, Decision.COMMIT, 0))
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
    listed = job.write(job.plan(), 1, key="same")
    _decided(job, [listed])  # and its driver died
    job.write(job.plan(), 2)  # undecided
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
        job.plan().commit([Written(QUERY, batch, None, 20)])  # once more, to a broker that remembers nothing
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
    plan.commit([Written(QUERY, 0, None, 20)])
    job.expect(0)


def test_batches_without_rows(job: Job) -> None:
    """They are decided, too: that nothing is known of a batch means that the log is not the one it was."""
    job.plan().commit([])
    job.run(0, rows=0)
    job.run(0, rows=0)
    assert job.log.streams() == {QUERY: 0}
    job.run(1)
    job.expect(1)


def test_long_histories_are_kept_as_heads(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_log, "HEADS_COUNT", 5)
    for batch in range(20):
        job.run(batch, rows=2)
    assert job.log.streams() == {QUERY: 19}
    whole = {batch for batch in range(20) if (found := job.log.find(QUERY, batch)) is not None and found.attempts}
    heads = {batch for batch in range(20) if (found := job.log.find(QUERY, batch)) is not None} - whole
    assert (whole, heads) == (set(range(10, 20)), set(range(5, 10)))
    for batch in (5, 19):
        job.run(batch, rows=2)
        with pytest.raises(BatchChanged):
            job.run(batch, rows=3)
    with pytest.raises(BatchUnknown, match="does not know any more of how many rows"):
        job.run(4, rows=2)
    job.expect(*range(20), rows=2)


@pytest.mark.parametrize("rows", [0, 19, 21])
def test_a_batch_that_comes_again_as_another_one_is_an_error(job: Job, rows: int) -> None:
    """As where a checkpoint was put back: rows that nobody sent are never passed over in silence."""
    job.run(0)
    for _ in range(2):
        with pytest.raises(BatchChanged, match=f"decided with 20 rows and came again with {rows}"):
            job.run(0, rows)
    job.expect(0)
    (job.log.folder / QUERY / f"{0:020}.accepted").touch()
    job.run(0, rows)
    job.run(1)
    job.expect(0, 1)


def test_what_is_decided_is_delivered_before_the_error(job: Job) -> None:
    _decided(job, [job.write(job.plan(), 0)])
    with pytest.raises(BatchChanged):
        job.run(0, rows=7)
    job.expect(0)


def test_a_slow_driver_with_other_rows_is_told(job: Job) -> None:
    slow = job.write(job.plan(), 0, rows=5)
    job.run(0)
    with pytest.raises(BatchChanged):
        job.plan().commit([slow])
    job.expect(0)


def test_a_log_that_was_lost_sends_nothing_twice(job: Job) -> None:
    for batch in (0, 1):
        job.run(batch)
    _older_log(job, 0)
    with pytest.raises(BatchUnknown, match=r"batch 2 of .* knows its batches only up to 0"):
        job.write(job.plan(), 2)
    shutil.rmtree(job.log.folder)
    with pytest.raises(BatchUnknown, match=r'knows nothing of it.*\.option\("firstBatch", "1"\)'):
        job.write(job.plan(), 1)
    job.expect(0, 1)


def test_a_query_that_has_run_before_can_begin_with_a_log(job: Job) -> None:
    plan = job.plan(firstBatch="57")
    with pytest.raises(BatchUnknown):
        job.write(plan, 58)
    plan.commit([job.write(plan, 57)])
    job.run(58)
    job.expect(57, 58)


def test_a_task_that_fails_rolls_back_what_it_sent(job: Job) -> None:
    def failing() -> Iterator[pyarrow.RecordBatch]:
        yield arrow_of(0, 0, 20)
        raise ValueError("a row is bad")

    with pytest.raises(ValueError, match="a row is bad"):
        job.plan().write(failing(), Piece(QUERY, 0, 0))
    until(lambda: job.server.open_halves(job.topic) == 0)
    with pytest.raises(InvalidArgument, match="row 1 of its partition"):
        bodies = pyarrow.record_batch([pyarrow.array([b"x", b""]), pyarrow.nulls(2, pyarrow.string())], SCHEMA.names)
        job.plan().write(iter([bodies]), Piece(QUERY, 0, 0))
    until(lambda: job.server.open_halves(job.topic) == 0)
    job.run(0)
    job.expect(0)


def test_a_batch_write_that_failed_leaves_nothing_open(job: Job) -> None:
    """Of a task whose process died nobody heard; that its write is over is written down, so brokers are told."""
    plan = job.batch_plan()
    plan.write(iter([arrow_of(0, 0, 20)]), Piece(plan.options.write_id, 0, 0))
    until(lambda: job.server.open_halves(job.topic) == 20)
    plan.abort([None], plan.options.write_id)
    until(lambda: job.server.open_halves(job.topic) == 0)
    job.expect()


def test_a_named_write_that_failed_can_be_started_again(job: Job) -> None:
    plan = job.batch_plan(writeId="day-1")
    lost = plan.write(iter([arrow_of(0, 0, 20)]), Piece(plan.options.write_id, 0, 0))
    plan.abort([lost], plan.options.write_id)
    for _ in range(2):
        job.write_table(writeId="day-1")
    job.expect(0)


def test_the_log_of_batch_writes_stays_small(job: Job) -> None:
    """Each leaves its head, so that it never happens twice; whole are the last few."""
    for number in range(15):
        job.write_table(500, writeId=f"day-{number}")
    sizes = {path.parent.name: path.stat().st_size for path in job.log.folder.glob("write-*/*.manifest")}
    assert sorted(sizes) == sorted(f"write-day-{number}" for number in range(15))
    small = {name for name, size in sizes.items() if size < 300}
    assert small == {f"write-day-{number}" for number in range(5)}
    job.write_table(500, writeId="day-0")
    with pytest.raises(BatchChanged):
        job.write_table(499, writeId="day-0")
    assert len(job.bodies()) == 15 * 500
    assert job.batch_plan(writeId="day-0").listed == {"write-day-0": 0}
    assert job.plan().listed == {}, "streams have nothing to do with them"


def test_what_was_lost_is_said_and_can_be_left(job: Job) -> None:
    written = job.write(job.plan(), 0)
    assert written.attempt is not None
    job.plan().abort([written])  # somebody rolled it back
    _decided(job, [written])
    with pytest.raises(BatchLost, match="20 cannot be: 20 were rolled back"):
        job.plan().commit([Written(QUERY, 0, None, 20)])
    (job.log.folder / QUERY / f"{0:020}.done").touch()
    job.plan().commit([Written(QUERY, 0, None, 20)])
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
        job.plan().commit([Written(QUERY, 0, None, 20)])


@pytest.mark.parametrize("where", ["hdfs://host/x", "s3a://bucket/x", "relative/path", "file://host/x", "/proc/1/x"])
def test_logs_that_cannot_be(job: Job, where: str) -> None:
    with pytest.raises((InvalidArgument, SinkLogUnusable), match="sinkLog"):
        job.plan(sinkLog=where)


def test_a_file_system_without_hard_links_is_said(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(SinkLogUnusable, match=r"not supported\. The driver must .* hard links"):
        job.plan()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, for whom the folder is not")
def test_a_folder_that_cannot_be_written_is_said(job: Job) -> None:
    job.log.folder.chmod(0o755)
    asked = f"""
import os
from cometmq.spark.sink_options import WriteOptions
os.setuid(65534)
WriteOptions.of({job.given!r}, is_stream=True)
"""
    ended = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    assert "SinkLogUnusable" in ended.stderr and "Permission denied" in ended.stderr


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
    rows = sum(one.count for one in written)
    return job.log.decide(Manifest(QUERY, written[0].batch, job.plan().options.group, rows, attempts))


def _older_log(job: Job, last: int) -> None:
    """As where it was brought back from an old copy."""
    for path in (job.log.folder / QUERY).iterdir():
        if int(path.stem) > last:
            path.unlink()


def _restart(job: Job) -> None:
    job.server.broker.kill()
    job.server.broker.start()
