"""The Spark program: jobs (`loads.Job`) as lines of JSON on standard input, a line of JSON for each on standard output.

    python -m bench.spark.program SCRATCH CLASS_PATH

One session on two cores runs them all, so that what is measured is warm, and both sides have the same Spark, the same
jars and the same JVM. The copy of the topic into Kafka, a job of its own, is made by it too: row n of a queue becomes
record n of the partition with its number.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.spark.workers import WorkerMemory
from bench.workloads import BODY_SIZE

CORES: Final = 2
HEAP: Final = "2g"


def main() -> None:
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    answers = os.dup(1)
    os.dup2(2, 1)  # what the JVM prints is no answer
    with tempfile.TemporaryDirectory(prefix="spark-", dir=sys.argv[1]) as scratch, open(answers, "w") as out:
        spark = _session(Path(scratch), sys.argv[2])
        print("{}", file=out, flush=True)  # ready
        for line in sys.stdin:
            print(json.dumps(_answer(spark, json.loads(line), Path(scratch))), file=out, flush=True)
        spark.stop()


def _session(scratch: Path, class_path: str) -> SparkSession:
    return (
        SparkSession.builder.master(f"local[{CORES}]")
        .appName("bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", HEAP)
        .config("spark.sql.shuffle.partitions", str(CORES))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.driver.extraClassPath", class_path)
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={scratch}")
        .getOrCreate()
    )


def _answer(spark: SparkSession, job: dict[str, Any], scratch: Path) -> dict[str, Any]:
    memory = WorkerMemory(os.getpid())
    began = time.perf_counter()
    try:
        rows, size = _RUNS[job["kind"]](spark, job, scratch)
    except Exception as fault:  # Spark's tell what happened in the tasks
        return {"fault": f"{type(fault).__name__}: {fault}"}
    elapsed_s = time.perf_counter() - began
    return {"rows": rows, "bytes": size, "elapsed_s": elapsed_s, **memory.peak()}


def _totals(frame: DataFrame, body: str) -> DataFrame:
    return frame.agg(sql.count("*"), sql.sum(sql.length(body)), sql.max("offset"))


def _read(spark: SparkSession, job: dict[str, Any], scratch: Path) -> tuple[int, int]:
    row = _totals(spark.read.format(job["format"]).options(**job["options"]).load(), job["body"]).collect()[0]
    return row[0], row[1]


def _stream(spark: SparkSession, job: dict[str, Any], scratch: Path) -> tuple[int, int]:
    with tempfile.TemporaryDirectory(dir=scratch) as checkpoint:
        totals = _totals(spark.readStream.format(job["format"]).options(**job["options"]).load(), job["body"])
        query = (
            totals.writeStream.outputMode("complete").format("memory").queryName("totals")
            .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        row = spark.table("totals").collect()[0]
    return row[0], row[1]


def _write(spark: SparkSession, job: dict[str, Any], scratch: Path) -> tuple[int, int]:
    rows = job["rows"]
    bodies = sql.rpad(sql.col("id").cast("string"), BODY_SIZE, "x").cast("binary")
    frame = spark.range(rows, numPartitions=CORES).select(bodies.alias(job["body"]))
    frame.write.format(job["format"]).options(**job["options"]).mode("append").save()
    return rows, rows * BODY_SIZE


def _copy(spark: SparkSession, job: dict[str, Any], scratch: Path) -> tuple[int, int]:
    topic = spark.read.format("rocketmq").options(**job["options"]).load()
    rows = topic.select(sql.col("body").alias("value"), sql.col("queue").alias("partition"))
    rows.write.format("kafka").options(**job["into"]).save()
    return 0, 0


def _make_topic(spark: SparkSession, job: dict[str, Any], scratch: Path) -> tuple[int, int]:
    """A first write may not make it: Kafka's producer stumbles over a topic whose leaders are not there yet."""
    options, jvm = job["options"], spark._jvm
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", options["kafka.bootstrap.servers"])
    unsaid = jvm.java.util.Optional.empty()  # the server's: as many partitions as there are queues
    topics = jvm.java.util.ArrayList()
    topics.add(jvm.org.apache.kafka.clients.admin.NewTopic(options["subscribe"], unsaid, unsaid))
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        admin.createTopics(topics).all().get()
    finally:
        admin.close()
    spark.read.format("kafka").options(**options).load().count()  # asks every leader
    return 0, 0


_RUNS: Final = {"read": _read, "stream": _stream, "write": _write, "copy": _copy, "make_topic": _make_topic}

if __name__ == "__main__":
    main()
