"""How long messages took, from their traces: sent to stored, sent to begun, begun to done; a chart is drawn of it.

Traces are what clients with message tracing send (`table=trace`), those of Java too. `latency` has percentiles by topic
and consumer group in milliseconds; `latency_chart` how many messages took how long until a consumer began with them.
Messages count whose producer traced them; what no consumer traced stands in a row without a group. (Java's consumer
traces no message that was sent in a batch: a batch's messages have no region in their properties, and it asks for one.)

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.traceTopic =
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, count, explode, expr, first, lit, percentile_approx, split, unix_millis

spark = SparkSession.active()
settings = {name: str(spark.conf.get(f"cometmq.{name}")) for name in ("namesrv", "traceTopic")}

BARS = {bound: f"≤ {bound} ms" for bound in (1, 2, 5, 10, 20, 50, 100, 200, 500)}
BARS |= {1_000: "≤ 1 s", 5_000: "≤ 5 s", 60_000: "≤ 1 min"}
LONGER = 3_600_000


@dp.temporary_view(name="trace_lines")
def trace_lines() -> DataFrame:
    return (
        spark.read.format("rocketmq")
        .option("namesrvAddr", settings["namesrv"])
        .option("table", "trace")
        .option("traceTopic", settings["traceTopic"])
        .load()
    )


@dp.temporary_view(name="journeys")
def journeys() -> DataFrame:
    """One row for each delivery of a message: when it was sent, when a consumer began and how long that took.

    Lines may be there twice, as clients send them again that were not acknowledged.
    """
    lines = spark.read.table("trace_lines")
    each = lines.withColumn("message_id", explode(split("message_id", ",")))  # one line tells of a whole batch
    told = (first("topic").alias("topic"), first("time").alias("sent"), first("cost_ms").alias("stored_ms"))
    sent = each.where("kind = 'Pub' AND success").groupBy("message_id").agg(*told)
    delivery = ["request_id", "message_id"]
    begun = lines.where("kind = 'SubBefore'").select(*delivery, "group", col("time").alias("begun"))
    done = lines.where("kind = 'SubAfter'").select(*delivery, col("cost_ms").alias("done_ms"))
    waited = unix_millis(col("begun")) - unix_millis(col("sent"))
    both = begun.dropDuplicates(delivery).join(done.dropDuplicates(delivery), delivery, "left")
    return sent.join(both, "message_id", "left").withColumn("begun_ms", waited)


@dp.materialized_view(comment="Percentiles in milliseconds.")
def latency() -> DataFrame:
    measured = [
        percentile_approx(f"{name}_ms", share).alias(f"{name}_p{label}")
        for name in ("stored", "begun", "done")
        for label, share in (("50", 0.5), ("99", 0.99))
    ]
    journeys = spark.read.table("journeys")
    return journeys.groupBy("topic", "group").agg(count("*").alias("messages"), *measured)


@dp.materialized_view(comment="Messages by the time until a consumer began with them")
def latency_chart() -> DataFrame:
    """Every bar is there, also those of no messages: pictures of two runs can be laid side by side."""
    cases = " ".join([f"WHEN begun_ms <= {bound} THEN {bound}" for bound in BARS])
    place = expr(f"CASE {cases} ELSE {LONGER} END").alias("place")
    counted = spark.read.table("journeys").where("begun_ms IS NOT NULL").groupBy(place).count()
    labels = {**BARS, LONGER: "longer"}
    named = ", ".join([f"struct({bound} AS place, '{label}' AS label)" for bound, label in labels.items()])
    bars = spark.range(1).select(expr(f"inline(array({named}))"))
    return bars.join(counted, "place", "left").select("place", "label", coalesce("count", lit(0)).alias("value"))
