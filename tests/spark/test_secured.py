"""A cluster that lets nobody in unasked: who asks stands in a file, and in no plan, table or progress."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.original.secured import ACCESS_KEY, KNOWN, SECRET_KEY, SecuredCluster
from tests.spark.sink_kit import until

from cometmq.blocking import Producer
from pyspark_rocketmq import track


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("secured")) as cluster:
        yield cluster


def test_it_is_written_read_and_committed(
    spark: SparkSession, secured: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, tls = "secured", secured.tls
    with Producer("secured", namesrv=secured.namesrv_addr, credentials=KNOWN, tls=tls) as producer:
        producer.create_topic(topic, queues=1)
    config = tmp_path / "client.properties"
    files = f"tls.caFile={tls.ca_file}\ntls.certFile={tls.cert_file}\ntls.keyFile={tls.key_file}\n"
    config.write_text(f"accessKey={ACCESS_KEY}\nsecretKey={SECRET_KEY}\n{files}")
    to = {"namesrvAddr": secured.namesrv_addr, "clientConfig": str(config)}
    rows = spark.range(100).selectExpr("CAST(id AS STRING) AS body")
    rows.write.format("rocketmq").options(**to, topic=topic).mode("append").save()
    read = spark.read.format("rocketmq").options(**to, subscribe=topic).load()
    assert sorted(int(bytes(row.body)) for row in read.collect()) == list(range(100))
    with pytest.raises(Exception, match="secretKey must not be one of them"):
        spark.sql(
            f"CREATE TABLE open USING rocketmq OPTIONS (namesrvAddr '{secured.namesrv_addr}', subscribe '{topic}', "
            f"accessKey '{ACCESS_KEY}', secretKey '{SECRET_KEY}')"
        )
    named = ", ".join(f"{name} '{value}'" for name, value in {**to, "subscribe": topic}.items())
    spark.sql(f"CREATE TABLE secured USING rocketmq OPTIONS ({named})")
    assert spark.table("secured").count() == 100
    spark.sql("DROP TABLE secured")
    monkeypatch.setenv("COMETMQ_CLIENT_CONFIG", str(config))
    tracker = track(spark)
    stream = (
        spark.readStream.format("rocketmq")
        .options(**to, subscribe=topic, startingOffsets="earliest", consumerGroup="secured-spark")
        .load()
    )
    query = stream.writeStream.format("noop").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    lag = spark.read.format("rocketmq").options(**to, table="lag", consumerGroup="secured-spark").load()
    until(lambda: [row.lag for row in lag.collect() if row.topic == topic] == [0])
    spark.streams.removeListener(tracker)
    with pytest.raises(Exception, match="check signature failed"):
        spark.read.format("rocketmq").options(
            **to, subscribe=topic, secretKey="wrong", retryTimeoutMs="1000"
        ).load().count()
