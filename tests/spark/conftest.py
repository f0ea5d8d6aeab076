"""The read suite runs twice: on CometMQ in this process, and on Apache RocketMQ 5.5.0; Spark itself runs once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.original import Cluster
from tests.original.registration import registered
from tests.spark.kit import Server
from tests.spark.pipeline_kit import serve_connect
from tests.spark.sessions import QUICK_JVM, SHORT_LIVED

from cometmq import SimpleConsumer
from cometmq.testing.pytest_plugin import RunningCluster


@pytest.fixture(scope="session")
def java_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Cluster("java", tmp_path_factory.mktemp("java"), conf={"enablePropertyFilter": "true"}) as running:
        asyncio.run(registered(running.namesrv_addr, within_s=60))
        yield Server("java", running.namesrv_addr)


@pytest.fixture
def comet(cometmq: RunningCluster) -> Server:
    return Server("comet", cometmq.namesrv)


@pytest.fixture(params=["comet", "java"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue("java_server" if request.param == "java" else "comet")
    return found


@pytest.fixture(scope="session")
def popped_by() -> dict[str, tuple[str, str]]:
    return {}


@pytest.fixture
def popped(server: Server, popped_by: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """A group that has popped three messages for a second, and acknowledged none; and their topic."""
    if server.kind not in popped_by:
        group, topic = f"popped_{server.kind}", server.topic(1)
        server.send(topic, range(3), queues=1)

        async def pop() -> None:
            async with SimpleConsumer(group, namesrv=server.namesrv, start_from="first") as consumer:
                found = consumer.receive(topic, invisible=timedelta(seconds=1))
                async with asyncio.timeout(60):
                    assert [await anext(found) for _ in range(3)]

        asyncio.run(pop())
        popped_by[server.kind] = group, topic
    return popped_by[server.kind]


@pytest.fixture(scope="session")
def connect(spark: SparkSession) -> str:
    """The URL of a Spark Connect server: the same Spark, for pipelines."""
    return serve_connect(spark)


@pytest.fixture
def tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """The catalog is shared by all tests: what a pipeline made is dropped after its test."""
    yield
    if "connect" in request.fixturenames:
        spark: SparkSession = request.getfixturevalue("spark")
        for table in spark.catalog.listTables():
            spark.sql(f"DROP TABLE {table.name}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    before = {name: os.environ.get(name) for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON")}
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    session = _session(folder)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2,4]")  # a task that failed is tried again, as on a cluster
    return (
        builder.config(map=SHORT_LIVED)
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"{QUICK_JVM} -Dderby.system.home={folder}")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
