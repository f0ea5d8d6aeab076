"""The data source `rocketmq` of PySpark: the only room that imports pyspark.

`source` is what Spark makes; `batch` and `stream` plan (on the driver), `pulling` reads (in the tasks); `cluster` asks
the servers; `options`, `offsets`, `planning` and `filters` are pure.
"""
