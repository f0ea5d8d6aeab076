"""JSON bodies as a typed table; what does not fit the schema goes to a dead-letter topic, with the reason.

`schema` is written as in SQL: "id BIGINT, amount DOUBLE, paid BOOLEAN". A body fits if it is one JSON object, with
nothing behind it, whose fields have these types; a field that is missing is null.

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.topic =
# cometmq.schema =
# cometmq.deadLetters =
# cometmq.maxOffsetsPerTrigger = 200000
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import (
    coalesce,
    col,
    concat,
    concat_ws,
    create_map,
    from_json,
    get_json_object,
    json_array_length,
    lit,
)

spark = SparkSession.active()
names = ("namesrv", "topic", "schema", "deadLetters", "maxOffsetsPerTrigger")
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
        .option("maxOffsetsPerTrigger", settings["maxOffsetsPerTrigger"])
        .load()
    )
    fields = f"{settings['schema']}, {MISFIT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MISFIT}
    text, offset = col("body").cast("string"), col("offset").cast("string")
    # Spark reads one value and leaves what stands behind it: in a list with the message's own offset nothing is left.
    both = concat(lit("["), text, lit(","), offset, lit("]"))
    is_alone = (json_array_length(both) == 2) & (get_json_object(both, "$[1]") == offset)
    value = from_json(text, fields, options)
    fits = value.isNotNull() & value[MISFIT].isNull() & is_alone  # a blank text has no value at all
    return messages.withColumn("value", value).withColumn("fits", coalesce(fits, lit(False)))


@dp.table(comment="Bodies that fit the schema, field by field, with where each message stood.")
def typed() -> DataFrame:
    fitting = parsed().where(col("fits"))
    return fitting.select("value.*", "message_id", "broker", "queue", "offset", "store_time").drop(MISFIT)


@dp.append_flow(target="dead_letters")
def misfits() -> DataFrame:
    place = concat_ws("/", "topic", "broker", col("queue").cast("string"), col("offset").cast("string"))
    return (
        parsed()
        .where(~col("fits"))
        .select(
            "body",
            "tags",
            "keys",
            create_map(lit("origin"), place, lit("reason"), lit("the body does not fit the schema")).alias(
                "properties"
            ),
        )
    )
