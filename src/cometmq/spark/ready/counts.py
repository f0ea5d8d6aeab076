"""Messages per minute, topic and tag, as JSON into another topic.

A minute is told once: when a message has come that is later than its end by `late`. What comes still later is not
counted.

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.topic =
# cometmq.into =
# cometmq.window = 1 minute
# cometmq.late = 10 seconds
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, count, length, lit, struct, sum, to_json, window

spark = SparkSession.active()
names = ("namesrv", "topic", "into", "window", "late")
settings = {name: str(spark.conf.get(f"cometmq.{name}")) for name in names}

dp.create_sink("counts_topic", "rocketmq", {"namesrvAddr": settings["namesrv"], "topic": settings["into"]})


@dp.append_flow(target="counts_topic")
def counts() -> DataFrame:
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", settings["namesrv"])
        .option("subscribe", settings["topic"])
        .option("startingOffsets", "earliest")
        .load()
    )
    counted = (
        messages.withWatermark("store_time", settings["late"])
        .groupBy(window("store_time", settings["window"]), "topic", coalesce("tags", lit("")).alias("tags"))
        .agg(count("*").alias("messages"), sum(length("body")).alias("bytes"))
    )
    line = struct(
        col("window.start").alias("from"), col("window.end").alias("to"), "topic", "tags", "messages", "bytes"
    )
    return counted.select(to_json(line).cast("binary").alias("body"), col("tags"))
