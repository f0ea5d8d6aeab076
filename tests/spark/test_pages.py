"""Every block of docs/spark.md and docs/pipelines.md is executed, in order, on a cluster of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from tests.docs.pages import ADDRESS, DOCS, Reader
from tests.spark.kit import read_all
from tests.spark.pipeline_kit import pipeline

from cometmq import Message
from cometmq.blocking import Producer
from cometmq.spark.pipelines.project import READY, find_project
from cometmq.testing.pytest_plugin import RunningCluster

pytestmark = pytest.mark.timeout(600)

ORDERS = 60


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    """Of its own, as the page names its topics."""
    running = RunningCluster()
    running.start()
    for topic in ("orders", "payments", "totals"):
        running.create_topic(topic, queues=2)
    yield running
    running.stop()


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Settings, views and listeners of the page stay in it; the catalog is the one of all."""
    yield spark.newSession()
    for table in ("orders", "outbox", "messages", "messages_by_tag"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def order(number: int) -> Message:
    tags = "paid" if number % 3 == 0 else "created"
    return Message("orders", json.dumps({"order": number}).encode(), tags=tags, keys=[f"order-{number}"])


def send_orders(cluster: RunningCluster, numbers: range) -> None:
    with Producer("shop", namesrv=cluster.namesrv) as shop:
        for number in numbers:
            shop.send(order(number))


def test_the_blocks_of_the_spark_page(
    cluster: RunningCluster, session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send_orders(cluster, range(ORDERS))
    store = cluster.cluster.broker.settings.store.store_path_root_dir
    here = {ADDRESS: cluster.namesrv, '"archive/': f'"{tmp_path}/archive/', "/data/spark": str(tmp_path)}

    def rows(**options: str) -> list[dict[str, Any]]:
        """What is in a table, read without Spark, which would take longer."""
        found: list[dict[str, Any]] = read_all({"namesrvAddr": cluster.namesrv, **options}).to_pylist()
        return found

    with Reader(DOCS / "spark.md", here | {"/var/lib/rocketmq/store": str(store)}) as reader:
        names: dict[str, Any] = reader.names
        names["spark"] = session
        assert "[spark]" in reader.next("sh").text  # that it can be installed: tests/docs/test_docs.py
        java = os.environ.get("JAVA_HOME")
        reader.run_python()  # provide_java
        assert os.environ.get("JAVA_HOME") == java

        reader.run_python()  # a batch read
        assert names["orders"].count() == ORDERS
        assert capsys.readouterr().out.count('{"order": ') == 20, "`show` shows as many"

        create, by_tag, selected = reader.next("sql").text.rstrip(";\n").split(";")
        session.sql(create)
        assert {row[0]: row[1] for row in session.sql(by_tag).collect()} == {"paid": 20, "created": 40}
        assert session.sql(selected).count() == 20

        stream = reader.next("python")
        reader.run_python()  # track, so that the only batch is committed too
        exec(stream.text, names)
        names["query"].awaitTermination()
        assert pyarrow.parquet.read_table(tmp_path / "archive" / "orders").num_rows == ORDERS
        session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        assert [row["lag"] for row in rows(table="lag", consumerGroup="archive")] == [0, 0]

        reader.run_python()  # WHERE
        assert "order-42" in capsys.readouterr().out
        assert names["orders"].where("tags = 'paid'").count() == 20

        names["payments"] = session.createDataFrame([(f"order-{n}", "EUR", n) for n in range(9)],
                                                    "order_id string, currency string, cents int")  # fmt: skip
        reader.run_python()  # write
        paid = rows(subscribe="payments")
        assert {(row["keys"], row["tags"]) for row in paid} == {(f"order-{n}", "EUR") for n in range(9)}
        assert {json.loads(row["body"])["cents"] for row in paid} == set(range(9))
        names["payments"].createOrReplaceTempView("incoming")
        for statement in reader.next("sql").text.rstrip(";\n").split(";"):
            session.sql(statement)
        assert len(rows(subscribe="payments")) == 18

        orders = session.readStream.format("rocketmq").options(namesrvAddr=cluster.namesrv, subscribe="orders")
        names["totals"] = orders.option("startingOffsets", "earliest").load().select("body", "keys")
        reader.run_python()  # exactly once
        (query,) = session.streams.active
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        assert sorted(row["keys"] for row in rows(subscribe="totals")) == sorted(f"order-{n}" for n in range(ORDERS))

        reader.run_python()  # the store's files
        assert names["stored"].count() == ORDERS


def test_the_blocks_of_the_pipelines_page(
    cluster: RunningCluster, session: SparkSession, connect: str, tmp_path: Path
) -> None:
    send_orders(cluster, range(ORDERS))
    namesrv = ("--set", f"namesrv={cluster.namesrv}")
    own = {"run archive": namesrv, "init shop": namesrv}  # the page's server is where it usually is
    told = {}
    with Reader(DOCS / "pipelines.md", {ADDRESS: cluster.namesrv, "/data/orders": f"{tmp_path}/orders"}) as reader:
        for line in reader.next("sh").text.splitlines():
            program, *words = shlex.split(line, comments=True)
            if program == "pip":  # tests/docs/test_docs.py knows what can be installed
                continue
            assert (program, words[0]) == ("cometmq", "pipeline")
            what = " ".join(words[1:3])
            ended = pipeline(connect, *words[1:], *own.get(what, ()), folder=tmp_path)
            assert ended.returncode == 0, (line, ended.stderr)
            told[what] = ended.stdout
        assert told["validate shop"] == "shop is sound\n"
        assert "completed" in told["run shop"] and "completed" in told["status shop"]
        assert {row.tags: row.messages for row in session.table("messages_by_tag").collect()} == {
            "paid": 20,
            "created": 40,
        }
        for line in reader.next("").text.splitlines():
            assert (tmp_path / line.split()[0]).exists(), line

        send_orders(cluster, range(ORDERS, ORDERS + 5))
        reader.names["spark"] = session
        reader.run_python()
        found = [(row.queue, row.offset) for row in reader.names["everything"].select("queue", "offset").collect()]
        assert len(found) == len(set(found)) == ORDERS + 5


def test_the_commands_of_the_pipelines_page_have_settings_that_exist() -> None:
    commands = re.findall(r"`cometmq pipeline run (.*?)` \|", (DOCS / "pipelines.md").read_text(encoding="utf-8"))
    assert {command.split()[0] for command in commands} == set(READY)
    for command in commands:
        name, *words = shlex.split(command)
        given = dict(word.split("=", 1) for word in words if word != "--set")
        find_project(name, {f"cometmq.{key}": value for key, value in given.items()})
