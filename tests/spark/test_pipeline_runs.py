"""`cometmq pipeline run` with Spark: ready-made pipelines on real messages and dead letters; a cluster."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from tests.spark.kit import Server, read_all
from tests.spark.pipeline_kit import pipeline
from tests.spark.standalone import standalone_cluster

from cometmq import Message, Producer, PushConsumer, ReceivedMessage, SimpleConsumer
from cometmq.client.pop_loop import DEAD
from cometmq.client.send_back import SendBack
from cometmq.spark.archives import with_archive
from cometmq.spark.pipelines.project import init_project, ready_file

pytestmark = [pytest.mark.usefixtures("tables"), pytest.mark.timeout(900)]

GOOD = 300
MISFITS = sorted(
    ["no json", " ", "\n\n", "null", '{"id":3}{"id":4}', '{"id":5} garbage', '{"id":6},{"id":7}', '{"id":8}] x']
)
BAD = len(MISFITS)
WITHOUT_DERBY = ("--set", "spark.sql.catalogImplementation=in-memory")  # which takes seconds to start


def send(server: Server, topic: str, bodies: list[str], tags: str = "t") -> None:
    """Messages whose keys are their numbers."""

    async def run() -> None:
        async with Producer("pipeline-tests", namesrv=server.namesrv) as producer:
            for number, body in enumerate(bodies):
                await producer.send(Message(topic, body.encode(), tags=tags, keys=[f"key-{number}"]))

    asyncio.run(run())


def bodies_in(server: Server, **chosen: str) -> list[str]:
    return sorted(body.decode() for body in read_all(server.options(**chosen)).column("body").to_pylist())


def run_well(where: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    ended = pipeline(where, "run", *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_four_ready_made_pipelines_in_one_run(comet: Server, spark: SparkSession, connect: str, tmp_path: Path) -> None:
    topic, counted, dead, left, right = (comet.topic(queues=2) for _ in range(5))
    send(comet, left, [f"left {number}" for number in range(20)])
    send(comet, right, [f"right {number}" for number in range(5)])
    send(comet, topic, [json.dumps({"id": number, "amount": number / 2}) for number in range(GOOD)])
    time.sleep(1.1)  # into the next second, which closes the window of the first
    send(comet, topic, MISFITS)
    settings = {"namesrv": comet.namesrv, "topic": topic, "into": counted, "window": "1 second", "late": "0 seconds"}
    archive = tmp_path / "archive"
    settings |= {"schema": "id BIGINT, amount DOUBLE", "deadLetters": dead, "path": str(archive)}
    settings |= {"left": left, "right": right, "within": "10 minutes", "maxOffsetsPerTrigger": "200"}
    folder = tmp_path / "four"
    init_project(str(folder), "archive", {f"cometmq.{key}": value for key, value in settings.items()})
    for name in ("counts", "typed", "join"):
        (folder / "transformations" / f"{name}.py").write_text(ready_file(name).read_text())

    ended = run_well(connect, folder)
    assert "archive" in ended.stdout and "completed" in ended.stdout
    assert pyarrow.parquet.read_table(archive).num_rows == GOOD + BAD
    assert len(list(archive.glob("date=*"))) in (1, 2)  # it may be midnight
    batches = {path.name.rsplit("-", 2)[1] for path in archive.glob("date=*/*.parquet")}
    assert batches == {"0", "1"}, "of 200 rows at most"
    typed = spark.table("typed").collect()
    assert sorted((row["id"], row["amount"]) for row in typed) == [(number, number / 2) for number in range(GOOD)]
    assert bodies_in(comet, subscribe=dead) == MISFITS
    pairs = {(row.left_body, row.right_body) for row in spark.table("joined").collect()}
    assert pairs == {(f"left {number}", f"right {number}") for number in range(5)}
    windows = [json.loads(line) for line in bodies_in(comet, subscribe=counted)]
    assert GOOD <= sum(window["messages"] for window in windows) <= GOOD + BAD

    send(comet, topic, ["later"] * 5)
    both = with_archive(spark, spark.read.parquet(str(archive)), topic, comet.namesrv)
    assert both.count() == GOOD + BAD + 5
    assert both.select("broker", "queue", "offset").distinct().count() == GOOD + BAD + 5


def bury(server: Server, topic: str, group: str, letters: dict[str, str]) -> None:
    """Send messages (tags by body) to a consumer that fails on each, and on each once more a second later."""
    attempts = 2 * len(letters)

    async def run() -> None:
        done = asyncio.Event()
        failed: list[bytes] = []

        async def fail(message: ReceivedMessage) -> None:
            failed.append(message.body)
            if len(failed) == attempts:
                done.set()
            raise ValueError("cannot be billed")

        consumer = PushConsumer(
            group, namesrv=server.namesrv, start_from="first", max_reconsume_times=1, retry_delay_level=1
        )
        consumer.subscribe(topic, fail)
        async with consumer, Producer("pipeline-tests", namesrv=server.namesrv) as producer:
            for body, tags in letters.items():
                await producer.send(
                    Message(topic, body.encode(), tags=tags, properties={"own": body}, sharding_key=f"shard {body}")
                )
            await done.wait()

    asyncio.run(run())
    while read_all(server.options(dlq=group)).num_rows < len(letters):
        time.sleep(0.1)


def bury_popped(server: Server, topic: str, group: str, body: str, tags: str) -> None:
    """Pop a message twice, and give it up then, as consumers do whose group pops."""

    async def run() -> None:
        async with (
            SimpleConsumer(group, namesrv=server.namesrv) as consumer,
            Producer("pipeline-tests", namesrv=server.namesrv) as producer,
        ):
            await producer.send(Message(topic, body.encode(), tags=tags, properties={"own": body}))
            async for message in consumer.receive(topic, invisible=timedelta(seconds=1)):
                if message.reconsume_times == 1:
                    assert await SendBack(producer.instance, group, 1).later(message, DEAD)
                    await message.ack()
                    break

    asyncio.run(run())


def test_dead_letters_name_the_topic_they_came_from(server: Server) -> None:
    topic, group = server.topic(queues=1), f"doomed-{server.kind}"
    bury(server, topic, group, {"1": "paid"})
    (letter,) = read_all(server.options(dlq=group)).to_pylist()
    found = dict(letter["properties"])
    assert (found["RETRY_TOPIC"], found["own"], letter["tags"]) == (topic, "1", "paid")
    assert "DLQ_ORIGIN_TOPIC" not in found
    assert letter["reconsume_times"] == 2


def test_chosen_dead_letters_are_sent_again_once(
    comet: Server, spark: SparkSession, connect: str, tmp_path: Path
) -> None:
    """First they are looked at, which sends nothing; a condition reaches all that no earlier one has chosen."""
    topic, group = comet.topic(queues=1), "billing"
    bury(comet, topic, group, {"1": "paid", "2": "paid", "3": "lost"})
    bury_popped(comet, topic, group, "4", "paid")
    triage = ("triage", "--set", f"namesrv={comet.namesrv}", "--set", f"group={group}", "--state", tmp_path / "state")
    run_well(connect, *triage)
    assert len(bodies_in(comet, subscribe=topic)) == 4
    assert {(row.origin, row.tags, row.messages) for row in spark.table("by_reason").collect()} == {
        (topic, "paid", 3),
        (topic, "lost", 1),
    }

    run_well(connect, *triage, "--set", "replay=tags = 'paid'")
    assert bodies_in(comet, subscribe=topic) == ["1", "1", "2", "2", "3", "4", "4"]
    again = [row for row in read_all(comet.options(subscribe=topic)).to_pylist() if row["offset"] > 3]
    found = {row["tags"] + dict(row["properties"])["own"]: dict(row["properties"]) for row in again}
    assert found.keys() == {"paid1", "paid2", "paid4"}
    assert found["paid1"]["__SHARDINGKEY"] == "shard 1"
    assert not {"RETRY_TOPIC", "DELAY", "ORIGIN_MESSAGE_ID"} & set(found["paid1"])
    assert again[0]["reconsume_times"] == 0

    run_well(connect, *triage, "--set", "replay=tags IN ('paid', 'lost')")
    assert bodies_in(comet, subscribe=topic) == ["1", "1", "2", "2", "3", "3", "4", "4"]
    assert spark.table("dead_letters").count() == 4


FAILING = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.active()


@udf("string")
def fail(body):
    raise ValueError(f"no body is {len(body)} long")


@dp.table
def failing():
    topic = spark.readStream.format("rocketmq").option("namesrvAddr", spark.conf.get("cometmq.namesrv"))
    topic = topic.option("subscribe", spark.conf.get("cometmq.topic")).option("startingOffsets", "earliest")
    return topic.load().select(fail("body").alias("text"))
"""


def test_faults_point_to_file_and_line(comet: Server, connect: str, tmp_path: Path) -> None:
    folder = tmp_path / "wrong"
    topic = comet.topic()
    init_project(str(folder), None, {"cometmq.namesrv": comet.namesrv, "cometmq.topic": topic})
    file = folder / "transformations" / "messages_by_tag.sql"
    file.write_text("-- a view\nCREATE MATERIALIZED VIEW by_tag AS SELECT count(*) FROM mesages\n")
    ended = pipeline(connect, "validate", folder)
    assert ended.returncode == 1
    assert f"{file}:2: [TABLE_OR_VIEW_NOT_FOUND]" in ended.stderr
    assert "Traceback" not in ended.stderr

    (folder / "transformations" / "messages.py").unlink()
    file.unlink()
    file = folder / "transformations" / "failing.py"
    file.write_text(FAILING)
    send(comet, topic, ["12345"])
    ended = pipeline(connect, "run", folder)
    assert ended.returncode == 1
    line = FAILING.split("\n").index('    raise ValueError(f"no body is {len(body)} long")') + 1
    assert ended.stderr.endswith(f"{file}:{line}: ValueError: no body is 5 long\n")
    assert ended.stderr.count("failing: failed") == 1, "it would fail again"


def test_a_run_on_a_cluster_of_two_workers(comet: Server, tmp_path: Path) -> None:
    topic = comet.topic(queues=2)
    send(comet, topic, ["x"] * 20, "a")
    send(comet, topic, ["y"] * 30, "b")
    folder = tmp_path / "shop"
    init_project(str(folder), None, {"cometmq.namesrv": comet.namesrv, "cometmq.topic": topic})
    (tmp_path / "cluster").mkdir()
    with standalone_cluster(tmp_path / "cluster") as cluster:
        run_well(cluster.url, folder, *WITHOUT_DERBY)
    tables = folder / "state" / "tables"
    assert pyarrow.parquet.read_table(tables / "messages").num_rows == 50
    counted = pyarrow.parquet.read_table(tables / "messages_by_tag").to_pylist()
    assert {row["tags"]: row["messages"] for row in counted} == {"a": 20, "b": 30}
    told = json.loads(pipeline("", "status", folder, "--json").stdout)
    assert told["state"] == "COMPLETED"
    flows = {flow["name"]: flow for flow in told["flows"]}
    assert (flows["messages"]["rows"], flows["messages"]["lag"]) == (50, {topic: 0})
