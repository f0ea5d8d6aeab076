"""A driver that archives a topic, to be killed: `archiving_driver.py MASTER NAMESRV TOPIC FOLDER MAX_PER_BATCH`."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(master: str, namesrv: str, topic: str, folder: str, most: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.warehouse.dir", str(Path(folder) / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    query = (
        spark.readStream.format("rocketmq")
        .options(namesrvAddr=namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=most)
        .load()
        .writeStream.format("parquet")
        .option("path", str(Path(folder) / "rows"))
        .option("checkpointLocation", str(Path(folder) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
