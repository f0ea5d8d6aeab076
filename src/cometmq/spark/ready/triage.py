"""What is in a group's dead-letter queue, and chosen messages of it sent again.

`dead_letters` has every one, with where it came from; `by_reason` counts them by topic and tag. Messages for which
`replay` holds (a condition as in SQL: "tags = 'paid'", "keys LIKE 'order-4%'"; false sends none) go to the topic that
they came from, once: the next run goes on behind them.

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.group =
# cometmq.replay = false
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, count, expr, length, lit, max, min, when

spark = SparkSession.active()
settings = {name: str(spark.conf.get(f"cometmq.{name}")) for name in ("namesrv", "group", "replay")}

dp.create_sink("origins", "rocketmq", {"namesrvAddr": settings["namesrv"]})


def dead() -> DataFrame:
    """Both flows read the queue by themselves: each has its own place in it."""
    letters = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", settings["namesrv"])
        .option("dlq", settings["group"])
        .option("startingOffsets", "earliest")
        .load()
    )
    # The topic of the program; or, where it was popped, the retry topic that the group has for it: %RETRY%group+topic.
    told = coalesce(col("properties")["RETRY_TOPIC"], col("properties")["DLQ_ORIGIN_TOPIC"])
    retry = f"%RETRY%{settings['group']}"
    popped = told.startswith(f"{retry}+") | told.startswith(f"{retry}_")
    origin = when(popped, told.substr(len(retry) + 2, 255)).when(told.startswith("%RETRY%"), lit(None)).otherwise(told)
    return letters.withColumn("origin", origin)


@dp.table(comment="Every dead letter, with the topic that it came from.")
def dead_letters() -> DataFrame:
    return dead()


@dp.materialized_view(comment="Dead letters by topic and tag.")
def by_reason() -> DataFrame:
    return (
        spark.read.table("dead_letters")
        .groupBy("origin", "tags")
        .agg(
            count("*").alias("messages"),
            min("born_time").alias("first"),
            max("store_time").alias("last"),
            max(length("body")).alias("largest"),
        )
    )


@dp.append_flow(target="origins")
def replayed() -> DataFrame:
    chosen = dead().where(expr(settings["replay"])).where(col("origin").isNotNull())
    return chosen.select(col("origin").alias("topic"), "body", "tags", "keys", "properties")
