"""`format("rocketmq-archive")` for PySpark: a stream into Parquet files by date. Spark finds this module by its name.

The work is done in `cometmq.spark.archive_sink`.
"""

from __future__ import annotations

from cometmq.spark.archive_sink import ArchiveSink as DefaultSource

__all__ = ["DefaultSource"]
