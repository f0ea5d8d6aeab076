"""The sink on real Spark: columns of every kind, what cannot be written, streams, and the original."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from cometmq.spark.sink import Plan
from cometmq.spark.sink_clients import close
from cometmq.spark.sink_sending import Piece, TaskSender
from cometmq.wire.record import Record

from .kit import Server
from .sink_kit import Served, served, until

pytestmark = pytest.mark.timeout(600)  # the first of them waits for Spark


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("sink"), messageDelayLevel="1s 2s") as running:
        yield running


def write(frame: DataFrame, namesrv: str, mode: str = "append", **options: str) -> None:
    frame.write.format("rocketmq").option("namesrvAddr", namesrv).options(**options).mode(mode).save()


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).select(F.col("id").cast("string").alias("body"))


def bodies(records: list[Record]) -> list[int]:
    return sorted(int(record.body) for record in records)


def seen(broker: Served, topic: str, count: int) -> list[Record]:
    """What consumers see, once there is so much of it."""
    limit = time.monotonic() + 30
    while len(found := broker.records(topic)) < count and time.monotonic() < limit:
        time.sleep(0.05)
    return found


def test_every_column_arrives(spark: SparkSession, broker: Served) -> None:
    for topic in ("one", "other"):
        broker.create(topic)
    at = datetime.now(UTC) + timedelta(seconds=1)
    rows = [
        (b"full", "other", "paid", ["k1", "k2"], {"a": "1", "UNIQ_KEY": "not mine"}, "shard", "id-1"),
        (b"bare", None, None, None, None, None, "id-2"),
    ]
    kinds = (
        "body binary, topic string, tags string, keys array<string>, properties map<string,string>, "
        "shardingKey string, number string"
    )
    write(spark.createDataFrame(rows, kinds), broker.address, topic="one", idColumn="number")
    (full,), (bare,) = seen(broker, "other", 1), seen(broker, "one", 1)
    expected = {"TAGS": "paid", "KEYS": "k1 k2", "a": "1", "__SHARDINGKEY": "shard", "UNIQ_KEY": "id-1"}
    assert full.body == b"full"
    assert full.properties.items() >= expected.items()
    assert bare.properties["UNIQ_KEY"] == "id-2"
    assert not bare.properties.keys() & {"TAGS", "KEYS", "a", "__SHARDINGKEY"}

    broker.create("later")
    frame = spark.createDataFrame(
        [("at", at, "k"), ("now", None, "k")], "body string, DELIVERAT timestamp, keys string"
    )
    write(frame, broker.address, topic="later")
    level = spark.createDataFrame([("level", 1), ("none", 0)], "body string, delayLevel int")
    write(level, broker.address, topic="later")
    found = seen(broker, "later", 4)
    assert sorted(one.body for one in found) == [b"at", b"level", b"none", b"now"]
    (due,) = [one for one in found if one.body == b"at"]
    assert due.store_time_ms >= int(at.timestamp() * 1000) - 1000
    assert due.properties["KEYS"] == "k"


def test_what_cannot_be_written_is_said(spark: SparkSession, broker: Served) -> None:
    """Before a task starts, where that can be seen; else by the row."""
    broker.create("sound")
    body = numbers(spark, 1, 1)
    wrong: list[tuple[str, DataFrame, dict[str, str]]] = [
        ("cannot be overwritten", body, {"mode": "overwrite", "topic": "sound"}),
        ("no column 'bodi': did you mean body", body.withColumnRenamed("body", "bodi"), {"topic": "sound"}),
        ("row 0 of its partition cannot be written: the body is empty", body.select(F.lit("").alias("body")), {}),
        ("the topic absent", body, {"topic": "absent"}),
    ]
    for reason, frame, options in wrong:
        with pytest.raises(PySparkException) as caught:
            write(frame, broker.address, **{"topic": "sound", **options})
        assert reason in str(caught.value)
    assert broker.count("sound", 4) == 0


def test_a_batch_write_that_is_named_happens_once(spark: SparkSession, broker: Served, tmp_path: Path) -> None:
    broker.create("named")
    options = {"topic": "named", "guarantee": "exactly-once", "sinkLog": str(tmp_path / "log")}
    for _ in range(2):
        write(numbers(spark, 500), broker.address, writeId="day-1", **options)
    assert bodies(broker.records("named")) == list(range(500))
    write(numbers(spark, 500), broker.address, **options)
    assert len(broker.records("named")) == 1000


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, broker: Served, tmp_path: Path) -> None:
    broker.create("all_or_none")
    failing = spark.range(0, 2000, 1, 2).select(
        F.when(F.col("id") == 1999, F.lit(None)).otherwise(F.col("id").cast("string")).alias("body")
    )
    options = {"topic": "all_or_none", "guarantee": "exactly-once", "sinkLog": str(tmp_path / "log")}
    with pytest.raises(PySparkException):
        write(failing, broker.address, **options)
    assert broker.records("all_or_none") == []


def files(folder: Path, count: int, rows: int) -> str:
    """A stream that is the same whenever it is read: files of numbers, one for each batch."""
    folder.mkdir()
    for number in range(count):
        text = "".join(f"{row}\n" for row in range(number * rows, (number + 1) * rows))
        (folder / f"{number:04}.txt").write_text(text)
    return str(folder)


def stream(spark: SparkSession, source: str, namesrv: str, checkpoint: Path, **options: str) -> StreamingQuery:
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(source)
    return (
        rows.select(F.col("value").alias("body"))
        .writeStream.format("rocketmq")
        .option("namesrvAddr", namesrv)
        .option("checkpointLocation", str(checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_stream_is_written_and_replayed(spark: SparkSession, broker: Served, tmp_path: Path, guarantee: str) -> None:
    """The last batch is run again by a query that does not know that it was committed: ids and counts tell."""
    topic = guarantee.replace("-", "_")
    broker.create(topic)
    options = {"topic": topic, "guarantee": guarantee}
    if guarantee == "exactly-once":
        options["sinkLog"] = str(tmp_path / "log")
    source, checkpoint = files(tmp_path / "in", 3, 100), tmp_path / "checkpoint"
    query = stream(spark, source, broker.address, checkpoint, **options)
    query.awaitTermination()
    assert bodies(broker.records(topic)) == list(range(300))
    if guarantee == "exactly-once":
        lose(str(query.id), {"namesrvAddr": broker.address, **options})
    (checkpoint / "commits" / "2").unlink()
    for crc in (checkpoint / "commits").glob(".2.crc"):
        crc.unlink()
    stream(spark, source, broker.address, checkpoint, **options).awaitTermination()
    found = broker.records(topic)
    assert len(found) == (400 if guarantee == "at-least-once" else 300)
    assert set(bodies(found)) == set(range(300))
    assert len({one.properties["UNIQ_KEY"] for one in found}) == 300
    if guarantee == "exactly-once":
        until(lambda: broker.open_halves(topic) == 0)  # Spark keeps the process that committed, and it is asked


def lose(query: str, options: dict[str, str]) -> None:
    """What an attempt leaves that nobody lists."""
    plan = Plan.of(options, StructType([StructField("body", StringType())]), False, is_stream=True)
    batch = pyarrow.record_batch([pyarrow.array(["lost"] * 10)], names=["body"])
    TaskSender(plan.options, plan.columns, Piece(query, 2, 7)).write(iter([batch]))
    close()


def test_exactly_once_is_refused_on_the_original(spark: SparkSession, java_server: Server, tmp_path: Path) -> None:
    topic = java_server.topic()
    write(numbers(spark, 100), java_server.namesrv, topic=topic)
    options = {"guarantee": "exactly-once", "sinkLog": str(tmp_path / "log")}
    with pytest.raises(PySparkException, match="On Apache RocketMQ a commit that is repeated"):
        write(numbers(spark, 100), java_server.namesrv, topic=topic, **options)
    with pytest.raises(PySparkException, match="On Apache RocketMQ a commit that is repeated"):
        write(numbers(spark, 100).withColumn("topic", F.lit(topic)), java_server.namesrv, **options)
    back = spark.read.format("rocketmq").options(namesrvAddr=java_server.namesrv, subscribe=topic).load()
    assert sorted(int(row.body) for row in back.select("body").collect()) == list(range(100))


def test_the_broker_goes_away_in_the_middle(spark: SparkSession, broker: Served, tmp_path: Path) -> None:
    """A restart of the broker costs time, not rows."""
    broker.create("restarted")
    options = {"topic": "restarted", "guarantee": "exactly-once", "sinkLog": str(tmp_path / "log")}
    query = stream(spark, files(tmp_path / "in", 6, 500), broker.address, tmp_path / "checkpoint", **options)
    until(lambda: broker.count("restarted", 4) > 0)
    broker.broker.kill()
    broker.broker.start()
    query.awaitTermination()
    assert bodies(broker.records("restarted")) == list(range(3000))
