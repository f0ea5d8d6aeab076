"""A topic and its archive as one table, without gap or overlap.

An archive holds every queue of its topic from somewhere up to an offset. The topic is read from there on, queue by
queue; a queue that the archive does not know is read whole. If the broker has already dropped messages that the
archive does not have yet, reading fails as it always does (`failOnDataLoss`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import max as greatest

from cometmq.columns import COLUMNS
from cometmq.spark.cluster import Cluster
from cometmq.spark.connecting import usual_client
from cometmq.spark.options import Choice

EARLIEST = -2


def with_archive(spark: SparkSession, archive: DataFrame, topic: str, namesrv: str, **options: str) -> DataFrame:
    """The messages of a topic, those that are archived from there, and the later ones from the broker."""
    columns = [name for name in COLUMNS if name in archive.columns]
    archived = archive.where(archive["topic"] == topic)
    ends = archived.groupBy("broker", "queue").agg(greatest("offset").alias("last")).collect()
    places = _places(topic, namesrv, {(row["broker"], row["queue"]): row["last"] + 1 for row in ends})
    newer = (
        spark.read.format("rocketmq")
        .options(**options)
        .option("namesrvAddr", namesrv)
        .option("subscribe", topic)
        .option("startingOffsets", places)
        .option("columns", ",".join(columns))
        .load()
    )
    return archived.select(*columns).unionByName(newer)


def _places(topic: str, namesrv: str, ends: Mapping[tuple[str, int], int]) -> str:
    """`startingOffsets` for every queue that the topic has now."""
    with closing(Cluster(usual_client(namesrv))) as cluster:
        queues = cluster.queues(Choice((topic,)))
    brokers: dict[str, dict[str, Any]] = {}
    for queue in queues:
        start = ends.get((str(queue.broker_name), queue.queue_id), EARLIEST)
        brokers.setdefault(str(queue.broker_name), {})[str(queue.queue_id)] = start
    return orjson.dumps({topic: brokers}).decode()
