"""A driver to be killed: `python -m tests.spark.killed_driver MASTER NAMESRV SOURCE TARGET FOLDER ROWS_MAX`.

Two queries read the topic SOURCE, at most ROWS_MAX messages in a batch: one writes them into files, the other one into
the topic TARGET, exactly once. It ends when there is FOLDER/stop, and leaves in FOLDER/files.json what the files hold.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.spark.sessions import SHORT_LIVED

NUMBER = "cast(cast(body AS string) AS bigint)"


def main(master: str, namesrv: str, source: str, target: str, place: str, rows_max: str) -> None:
    folder = Path(place)
    builder = SparkSession.builder.master(master).config(map=SHORT_LIVED)
    spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("rocketmq")
        .options(namesrvAddr=namesrv, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=rows_max)
        .load()
    )
    queries = [into_files(rows, folder)]
    await_reader(queries[0])
    queries.append(into_topic(rows.select("body"), folder, namesrv, target))
    while not (folder / "stop").exists():
        for query in queries:
            query.awaitTermination(0.1)  # raises what ended it
    for query in queries:
        query.stop()
    written = spark.read.parquet(str(folder / "files" / "rows"))
    told = written.selectExpr("count(*)", f"count(DISTINCT {NUMBER})", f"sum({NUMBER})", f"max({NUMBER})").collect()
    (folder / "files.json").write_text(json.dumps(list(told[0])))
    spark.stop()


def await_reader(query: StreamingQuery) -> None:
    """Wait until the query has begun.

    Readers of one data source are made with one table, without a lock (PythonStreamingSourceRunner.init): where two are
    made at once it may be spoilt, and every task of the driver fails ("Illegal size 5 of collection, expected 6").
    """
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(0.05)


def into_files(rows: DataFrame, folder: Path) -> StreamingQuery:
    out = rows.writeStream.format("parquet").option("path", str(folder / "files" / "rows"))
    return out.option("checkpointLocation", str(folder / "files" / "checkpoint")).start()


def into_topic(rows: DataFrame, folder: Path, namesrv: str, topic: str) -> StreamingQuery:
    out = rows.writeStream.format("rocketmq").options(
        namesrvAddr=namesrv, topic=topic, guarantee="exactly-once", sinkLog=str(folder / "topic" / "log")
    )
    return out.option("checkpointLocation", str(folder / "topic" / "checkpoint")).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
