"""What is in a group's dead-letter queue, and chosen messages of it sent again.

`dead_letters` has every one, with where it came from; `by_reason` counts them by topic and tag. While `replay` is
false, that is all. Give it a condition as in SQL ("tags = 'paid'", "keys LIKE 'order-4%'"), and the letters for which
it holds go to the topic that they came from. Every letter is sent once, also over runs and under other conditions: each
condition has a table of the letters that it has chosen, from which they are sent, and chooses none that is in another.

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.group =
# cometmq.replay = false
# cometmq.maxOffsetsPerTrigger = 200000
"""

from __future__ import annotations

from hashlib import sha256

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, count, expr, length, lit, max, min, when

spark = SparkSession.active()
names = ("namesrv", "group", "replay", "maxOffsetsPerTrigger")
settings = {name: str(spark.conf.get(f"cometmq.{name}")) for name in names}
condition = settings["replay"].strip()
PLACE = ["broker", "queue", "offset"]  # of a letter


def dead() -> DataFrame:
    """Every flow reads the queue by itself: each has its own place in it."""
    letters = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", settings["namesrv"])
        .option("dlq", settings["group"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings["maxOffsetsPerTrigger"])
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


def send_from(table: str) -> None:
    """What is in a table goes to where it came from, in this run or, if that fails, in a later one."""

    @dp.append_flow(target="origins", name=f"sent_{table}")
    def sent() -> DataFrame:
        return spark.readStream.table(table).select("topic", "body", "tags", "keys", "properties", "sharding_key")


if condition.lower() != "false":
    dp.create_sink("origins", "rocketmq", {"namesrvAddr": settings["namesrv"]})
    own = f"chosen_{sha256(condition.encode()).hexdigest()[:12]}"
    others = [one.name for one in spark.catalog.listTables() if one.name.startswith("chosen_") and one.name != own]

    # Tables of their own: Spark's file sink takes the second flow into a table for a replay of the first.
    @dp.table(name=own, comment=f"Dead letters chosen by: {condition}")
    def chosen() -> DataFrame:
        letters = dead().where(expr(condition)).where(col("origin").isNotNull())
        for other in others:
            letters = letters.join(spark.read.table(other).select(*PLACE), PLACE, "left_anti")
        sharding_key = col("properties")["__SHARDINGKEY"].alias("sharding_key")
        return letters.select(*PLACE, col("origin").alias("topic"), "body", "tags", "keys", "properties", sharding_key)

    for table in (own, *others):
        send_from(table)
