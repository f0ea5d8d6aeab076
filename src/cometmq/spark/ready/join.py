"""Two topics joined by key, where the second message came within `within` after the first.

A message's key is its first one (`keys`). State is kept for as long as a partner may still come: `late` behind the
newest message of either topic, and no longer.

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.left =
# cometmq.right =
# cometmq.within = 10 minutes
# cometmq.late = 1 minute
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, split

spark = SparkSession.active()
names = ("namesrv", "left", "right", "within", "late")
settings = {name: str(spark.conf.get(f"cometmq.{name}")) for name in names}


def side(name: str) -> DataFrame:
    """One topic: key, time and body, with the side's name before each."""
    return (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", settings["namesrv"])
        .option("subscribe", settings[name])
        .option("startingOffsets", "earliest")
        .load()
        .where(col("keys").isNotNull())
        .select(
            split("keys", " ")[0].alias(f"{name}_key"),
            col("born_time").alias(f"{name}_time"),
            col("tags").alias(f"{name}_tags"),
            col("body").cast("string").alias(f"{name}_body"),
        )
        .withWatermark(f"{name}_time", settings["late"])
    )


@dp.table(comment="Pairs of messages with one key, the right one within some time after the left.")
def joined() -> DataFrame:
    fits = f"""
        left_key = right_key
        AND right_time >= left_time
        AND right_time <= left_time + INTERVAL {settings["within"]}
    """
    return side("left").join(side("right"), expr(fits)).drop("right_key")
