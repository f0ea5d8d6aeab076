"""`format("rocketmq")` in a real Spark: found without registration, read by SQL, streamed, and faults that are told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from tests.spark.kit import Server, read_all, source

import pyspark_rocketmq
from cometmq.columns import COLUMNS
from cometmq.errors import InvalidArgument

pytestmark = pytest.mark.timeout(600)

MANY = range(2000)
TOTAL = sum(MANY)


@pytest.fixture(scope="module")
def filled() -> dict[str, str]:
    return {}


@pytest.fixture
def topic(server: Server, filled: dict[str, str]) -> str:
    return _topic(server, filled)


def _topic(server: Server, filled: dict[str, str]) -> str:
    if server.kind not in filled:
        filled[server.kind] = server.topic()
        server.send(filled[server.kind], MANY)
    return filled[server.kind]


def read(spark: SparkSession, server: Server, **given: object) -> DataFrame:
    return spark.read.format("rocketmq").options(**server.options(**given)).load()


def counted(frame: DataFrame) -> tuple[int, int]:
    """How many rows, and the sum of their numbers."""
    (row,) = frame.selectExpr("count(*)", "sum(cast(cast(body AS string) AS int))").collect()
    return row[0], row[1]


def test_a_topic_is_a_table(spark: SparkSession, server: Server, topic: str) -> None:
    frame = read(spark, server, subscribe=topic, minPartitions=3)
    assert counted(frame) == (len(MANY), TOTAL)
    frame.createOrReplaceTempView("messages")
    (row,) = spark.sql(
        "SELECT count(DISTINCT message_id), max(queue), max(offset), min(properties['number']), max(tags), "
        "max(store_time) > timestamp'2020-01-01' FROM messages WHERE tags = 'three'"
    ).collect()
    assert tuple(row) == (len(MANY[::3]), 3, 499, "0", "three", True)


def test_a_table_of_the_catalog_keeps_its_options(spark: SparkSession, comet: Server, filled: dict[str, str]) -> None:
    topic = _topic(comet, filled)
    spark.sql(f"CREATE TABLE orders USING rocketmq OPTIONS (namesrvAddr '{comet.namesrv}', subscribe '{topic}')")
    try:
        assert counted(spark.table("orders")) == (len(MANY), TOTAL)
        assert spark.sql("SELECT count(*) FROM orders WITH ('tags' = 'three')").first()[0] == len(MANY[::3])  # type: ignore[index]
    finally:
        spark.sql("DROP TABLE orders")


def test_a_wrong_table_of_the_catalog_is_not_made() -> None:
    """What Spark hands to the source when a table is made, without Spark."""

    def create(**options: str) -> StructType:
        made = {"provider": "rocketmq", "owner": "me"} | {f"option.{name.lower()}": options[name] for name in options}
        return source(made).schema()

    server = {"namesrvAddr": "127.0.0.1:1"}
    for options, told in [
        ({"namesrvAdr": "x:1", "subscribe": "y"}, "did you mean namesrvAddr"),
        ({}, "TBLPROPERTIES are no options"),
        (server, "say what to read"),
        ({**server, "subscribe": "a", "assign": "{}"}, "exclude each other"),
        ({**server, "subscribe": "a", "topic": "a"}, "it is read or written"),
        ({**server, "topic": "a", "sinkLog": "/x"}, "of guarantee=exactly-once"),
        ({**server, "topic": "a", "columns": "body,tgas"}, "did you mean tags"),
        ({**server, "topic": "a", "columns": "tags"}, "no column body"),
        ({**server, "storePath": "/x"}, "namesrvAddr does not go with storePath"),
        ({**server, "table": "lag", "subscribe": "a"}, "does not go with the table lag"),
    ]:
        with pytest.raises(InvalidArgument, match=told):
            create(**options)
    with pytest.raises(InvalidArgument, match="means nothing to the source"):
        source({"provider": "rocketmq", "option.subscribe": "a", "location": "file:/x"}).schema()
    assert create(**server, subscribe="a", maxOffsetsPerTrigger="5").fieldNames() == list(COLUMNS)
    assert create(**server, topic="a").fieldNames() == ["Body", "tags", "keys", "properties"]
    written = create(**server, topic="a", columns="body,sharding_key,deliverAt,id", idColumn="id")
    assert written.simpleString() == "struct<Body:binary,shardingKey:string,deliverAt:timestamp,id:string>"


def test_options_of_one_table_never_count_for_another() -> None:
    """Columns take their metadata along: what arrives with a schema may be the options of what was read."""
    server = {"namesrvAddr": "127.0.0.1:1"}
    read = source({"provider": "rocketmq", "option.namesrvAddr": "127.0.0.1:2", "option.subscribe": "a"}).schema()
    written = source({"provider": "rocketmq", "option.namesrvAddr": "127.0.0.1:2", "option.topic": "b"}).schema()
    bare = StructType().add("body", "binary")
    for own, schema, told in [
        ({}, read, "those of a table that is read"),
        ({}, bare, "no option has come with it"),
        ({"checkpointLocation": "/x"}, bare, "no option has come with it"),
        (server, written, "say where to write"),
        (server, bare, "say where to write"),
        ({**server, "topic": "t", "path": "/x"}, bare, "a path ./x. means nothing"),
        ({**server, "topic": "t", "subscribe": "t"}, bare, "subscribe does not go with a write"),
    ]:
        with pytest.raises(InvalidArgument, match=told):
            source(own).writer(schema, False)
        with pytest.raises(InvalidArgument, match=told):
            source(own).streamWriter(schema, False)
    assert source({}).writer(written, False)
    for own, schema, told in [
        (server, read, "say what to read"),
        ({}, bare, "no option has come with it"),
        ({}, written, "this table is written to"),
        ({**server, "subscribe": "t", "topic": "t"}, bare, "topic does not go with a read"),
    ]:
        with pytest.raises(InvalidArgument, match=told):
            source(own).reader(schema)
    assert source({}).reader(read)
    assert source({"tags": "x"}).reader(read)


def test_a_table_of_the_catalog_is_written(spark: SparkSession, comet: Server) -> None:
    """Also with rows of another one, whose columns have the same names."""
    origin, topic = comet.topic(1), comet.topic(1)
    comet.send(origin, [5], queues=1)
    for name, options in {"origin": f"subscribe '{origin}'", "written": f"topic '{topic}'"}.items():
        spark.sql(
            f"CREATE TABLE {name} USING rocketmq OPTIONS (namesrvAddr '{comet.namesrv}', {options}, "
            "columns 'body,tags')"
        )
    try:
        spark.sql("INSERT INTO written VALUES (cast('1' AS binary), 'one'), (cast('2' AS binary), NULL)")
        spark.table("origin").writeTo("written").append()
        spark.sql("INSERT INTO written SELECT cast('7' AS binary) AS body, 'seven' AS tags")
    finally:
        spark.sql("DROP TABLE origin")
        spark.sql("DROP TABLE written")
    found = [(bytes(row["body"]), row["tags"]) for row in read_all(comet.options(subscribe=topic)).to_pylist()]
    assert sorted(found, key=str) == [(b"1", "one"), (b"2", None), (b"5", "other"), (b"7", "seven")]
    assert read_all(comet.options(subscribe=origin)).num_rows == 1


def test_where_is_pushed_down(spark: SparkSession, comet: Server, filled: dict[str, str]) -> None:
    frame = read(spark, comet, subscribe=_topic(comet, filled), pushdown="true")
    assert frame.where("keys = 'key-77'").collect()[0]["offset"] == 19
    where = "tags = 'three' AND store_time >= timestamp'2020-01-01 00:00:00' AND queue IN (0, 1) AND offset < 100"
    assert frame.where(where).count() == len([n for n in range(400) if n % 3 == 0 and n % 4 < 2])
    assert frame.where("store_time < timestamp'2020-01-01 00:00:00'").count() == 0


def test_a_schema_chooses_columns(spark: SparkSession, comet: Server, filled: dict[str, str]) -> None:
    reader = spark.read.format("rocketmq").options(**comet.options(subscribe=_topic(comet, filled)))
    assert reader.schema("offset bigint, body binary").load().columns == ["offset", "body"]
    with pytest.raises(AnalysisException, match="body is binary, not string"):
        reader.schema("body string").load().collect()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"subscribe": "no-such-topic"}, "the topic no-such-topic is not known"),
        ({"subscrib": "t"}, "did you mean subscribe"),
        ({"subscribe": "t", "assign": "{}"}, "exclude each other"),
        ({"subscribe": "t", "columns": "bodies"}, "did you mean body"),
        ({"namesrvAddr": "127.0.0.1:1", "subscribe": "t", "retryTimeoutMs": "0"}, "no name server answers"),
    ],
    ids=str,
)
def test_what_is_wrong_reaches_the_user(spark: SparkSession, comet: Server, given: dict[str, str], told: str) -> None:
    with pytest.raises(PySparkException, match=told):
        spark.read.format("rocketmq").options(**{**comet.options(), **given}).load().collect()


def test_a_stream_that_fails_says_why(spark: SparkSession, comet: Server) -> None:
    topic = comet.topic(1)
    options = comet.options(subscribe=topic, startingOffsets=json.dumps({topic: {"broker-a": {"0": 99}}}))
    query = spark.readStream.format("rocketmq").options(**options).load().writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match="ends at 0"):
        query.awaitTermination()
    wrong = comet.options(subscribe=topic, endingOffsets="latest")
    query = spark.readStream.format("rocketmq").options(**wrong).load().writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        query.awaitTermination()


@pytest.fixture
def tracked(spark: SparkSession) -> Iterator[None]:
    listener = pyspark_rocketmq.track(spark)
    yield
    spark.streams.removeListener(listener)


@pytest.mark.usefixtures("tracked")
def test_a_stream_ends_with_what_was_there_and_its_group_is_up_to_date(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    """The last batch too: Spark never tells the source of it, the listener hears of it."""
    group = f"spark-{server.kind}"
    options = server.options(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=900, consumerGroup=group, minPartitions=2
    )

    def run() -> list[Any]:
        query = (
            spark.readStream.format("rocketmq")
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress for progress in query.recentProgress if progress.numInputRows]

    batches = run()
    assert [progress.numInputRows for progress in batches] == [900, 900, 200]
    latest = json.loads(batches[-1].sources[0].latestOffset)
    assert latest[topic] == json.loads(batches[-1].sources[0].endOffset)[topic]
    assert counted(spark.read.parquet(str(tmp_path / "rows"))) == (len(MANY), TOTAL)
    deadline_s = time.monotonic() + 60
    while lag(server, group) != [0, 0, 0, 0]:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    assert run() == []  # nothing is new


def lag(server: Server, group: str) -> list[int]:
    table = read_all(server.options(table="lag", consumerGroup=group))
    return table.column("lag").to_pylist() if "lag" in table.column_names else []


@pytest.mark.parametrize("kind", ["reader", "stream reader", "writer", "stream writer"])
def test_an_executor_without_the_package_is_told_so(kind: str, tmp_path: Path) -> None:
    """What Spark sends to tasks, opened by a Python that has PySpark and nothing else."""
    server, body = {"namesrvAddr": "127.0.0.1:1"}, StructType().add("body", "binary")
    made, target = source({**server, "subscribe": "t"}), source({**server, "topic": "t"})
    ways: dict[str, Callable[[], object]] = {
        "reader": lambda: made.reader(made.schema()),
        "stream reader": lambda: made.streamReader(made.schema()),
        "writer": lambda: target.writer(body, False),
        "stream writer": lambda: target.streamWriter(body, False),
    }
    sent = tmp_path / "sent"
    sent.write_bytes(cloudpickle.dumps(ways[kind]()))
    code = (
        "import sys; sys.modules['cometmq'] = None; from pyspark import cloudpickle; "
        "cloudpickle.loads(open(sys.argv[1], 'rb').read())"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(sent)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Every executor needs what the driver has: install CometMQ with its extra spark there" in ended.stderr
