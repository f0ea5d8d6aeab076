"""What `format("rocketmq")` makes: a source that tells its schema and gives readers and writers for its options.

Spark makes it anew in several processes of the driver, so it holds nothing but the options. Rooms are imported when
they are asked for: Spark loads this module whenever it looks for any Python data source.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from cometmq.errors import InvalidArgument
from cometmq.spark.carried import carried


class RocketSource(DataSource):
    """Topics of Apache RocketMQ and CometMQ, as tables and streams."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(revived, dict(self.options))

    def schema(self) -> StructType:
        from cometmq.spark.catalog import catalog_options, catalog_schema
        from cometmq.spark.connecting import with_config
        from cometmq.spark.tables import table_of

        options = catalog_options(self.options)
        if options is not None:
            return catalog_schema(options)
        table = table_of(with_config(self.options))
        table.check()
        return table.spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from cometmq.spark.catalog import options_to_read
        from cometmq.spark.connecting import with_config
        from cometmq.spark.tables import table_of

        return table_of(with_config(options_to_read(self.options, schema))).reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from cometmq.spark.catalog import options_to_read
        from cometmq.spark.connecting import with_config
        from cometmq.spark.refusal import RefusingStreamReader
        from cometmq.spark.tables import table_of

        try:
            return table_of(with_config(options_to_read(self.options, schema))).stream_reader(schema)
        except InvalidArgument as fault:
            return RefusingStreamReader(str(fault))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from cometmq.spark.catalog import options_to_write
        from cometmq.spark.connecting import with_config
        from cometmq.spark.sink import batch_writer

        return batch_writer(with_config(options_to_write(self.options, schema)), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from cometmq.spark.catalog import options_to_write
        from cometmq.spark.connecting import with_config
        from cometmq.spark.sink import stream_writer

        return stream_writer(with_config(options_to_write(self.options, schema)), schema, overwrite)


def revived(options: MutableMapping[str, str]) -> RocketSource:
    """The source with these options, in another process."""
    return RocketSource(CaseInsensitiveDict(options))
