"""JSON bodies as a typed table; what does not fit the schema goes to a dead-letter topic, with the reason.

`schema` is written as in SQL: "id BIGINT, amount DOUBLE, paid BOOLEAN". A body fits if it is a JSON object whose fields
have these types; a field that is missing is null.

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.topic =
# cometmq.schema =
# cometmq.deadLetters =
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat_ws, create_map, from_json, lit

spark = SparkSession.active()
names = ("namesrv", "topic", "schema", "deadLetters")
settings = {name: str(spark.conf.get(f"cometmq.{name}")) for name in names}

# Spark puts a body that does not fit into this column as it is.
MISFIT = "_misfit"

dp.create_sink("dead_letters", "rocketmq", {"namesrvAddr": settings["namesrv"], "topic": settings["deadLetters"]})


def parsed() -> DataFrame:
    """Both flows read the topic by themselves: each has its own place in it."""
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", settings["namesrv"])
        .option("subscribe", settings["topic"])
        .option("startingOffsets", "earliest")
        .load()
    )
    fields = f"{settings['schema']}, {MISFIT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MISFIT}
    return messages.withColumn("value", from_json(col("body").cast("string"), fields, options))


@dp.table(comment="Bodies that fit the schema, field by field, with where each message stood.")
def typed() -> DataFrame:
    fits = parsed().where(col(f"value.{MISFIT}").isNull())
    return fits.select("value.*", "message_id", "broker", "queue", "offset", "store_time").drop(MISFIT)


@dp.append_flow(target="dead_letters")
def misfits() -> DataFrame:
    place = concat_ws("/", "topic", "broker", col("queue").cast("string"), col("offset").cast("string"))
    return (
        parsed()
        .where(col(f"value.{MISFIT}").isNotNull())
        .select(
            "body",
            "tags",
            "keys",
            create_map(lit("origin"), place, lit("reason"), lit("the body does not fit the schema")).alias(
                "properties"
            ),
        )
    )
