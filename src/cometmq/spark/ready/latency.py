"""How long messages took, from their traces: sent to stored, sent to begun, begun to done; a chart is drawn of it.

Traces are what clients with message tracing send (`table=trace`). `latency` has percentiles by topic and consumer group
in milliseconds; `latency_chart` how many messages took how long until a consumer began with them.

# cometmq.namesrv = 127.0.0.1:9876
# cometmq.traceTopic =
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, expr, first, percentile_approx, unix_millis

spark = SparkSession.active()
settings = {name: str(spark.conf.get(f"cometmq.{name}")) for name in ("namesrv", "traceTopic")}

BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 60_000)


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
    """One row for each delivery of a message: when it was sent, when a consumer began and how long that took."""
    lines = spark.read.table("trace_lines")
    told = (first("topic").alias("topic"), first("time").alias("sent"), first("cost_ms").alias("stored_ms"))
    sent = lines.where("kind = 'Pub' AND success").groupBy("message_id").agg(*told)
    begun = lines.where("kind = 'SubBefore'").select("request_id", "message_id", "group", col("time").alias("begun"))
    done = lines.where("kind = 'SubAfter'").select("request_id", "message_id", col("cost_ms").alias("done_ms"))
    waited = unix_millis(col("begun")) - unix_millis(col("sent"))
    both = begun.join(done, ["request_id", "message_id"], "left")
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


@dp.materialized_view(comment="How many messages took how long until a consumer began; drawn as a chart.")
def latency_chart() -> DataFrame:
    cases = " ".join([f"WHEN begun_ms <= {bound} THEN {bound}" for bound in BOUNDS_MS])
    upper = expr(f"CASE {cases} ELSE 3600000 END")
    counted = spark.read.table("journeys").where("begun_ms IS NOT NULL").groupBy(upper.alias("place")).count()
    label = expr("CASE WHEN place = 3600000 THEN 'longer' ELSE concat('≤ ', place, ' ms') END")
    return counted.select("place", label.alias("label"), col("count").alias("value"))
