"""`format("rocketmq")` for PySpark. Spark finds this module by its name, so nothing has to be registered.

    spark.read.format("rocketmq").option("namesrvAddr", "127.0.0.1:9876").option("subscribe", "orders").load()

The work is done in `cometmq.spark`; docs/spark.md tells the options.
"""

from __future__ import annotations

from cometmq.spark.java import provide_java
from cometmq.spark.source import RocketSource as DefaultSource
from cometmq.spark.tracking import track

__all__ = ["DefaultSource", "provide_java", "track"]
