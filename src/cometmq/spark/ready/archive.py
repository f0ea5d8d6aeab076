"""A topic to Parquet files, in a folder per day (of the time when a message was stored, in UTC).

Every run goes on where the last one stopped: no message is missing and none is there twice, for what a batch wrote is
put in place once. `cometmq.spark.archives.with_archive` reads topic and archive as one table.

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.topic =
# cometmq.path =
# cometmq.group = spark-archive
# cometmq.maxOffsetsPerTrigger = 200000
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
names = ("namesrv", "topic", "path", "group", "maxOffsetsPerTrigger")
settings = {name: str(spark.conf.get(f"cometmq.{name}")) for name in names}

dp.create_sink("archive_files", "rocketmq-archive", {"path": settings["path"]})


@dp.append_flow(target="archive_files")
def archive() -> DataFrame:
    return (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", settings["namesrv"])
        .option("subscribe", settings["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings["maxOffsetsPerTrigger"])
        .option("consumerGroup", settings["group"])
        .load()
    )
