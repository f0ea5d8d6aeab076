"""A driver to be killed: `python -m tests.spark.sink_driver NAMESRV TOPIC FOLDER` writes FOLDER/in, exactly once.

It ends, and makes the file FOLDER/complete, when there is nothing left to write.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812


def main(namesrv: str, topic: str, folder: str) -> None:
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        # It lives for seconds: compiled quickly is better than compiled well.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(f"{folder}/in")
    query = (
        rows.select(F.col("value").alias("body"))
        .repartition(2)
        .writeStream.format("rocketmq")
        .options(namesrvAddr=namesrv, topic=topic, guarantee="exactly-once", sinkLog=f"{folder}/log")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    Path(folder, "complete").touch()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
