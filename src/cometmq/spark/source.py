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

from cometmq.spark.carried import carried
from cometmq.spark.catalog import catalog_options, kept_options, with_options


class RocketSource(DataSource):
    """Topics of Apache RocketMQ and CometMQ, as tables and streams."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(revived, dict(self.options))

    def schema(self) -> StructType:
        from cometmq.spark.options import READING, WRITING, Words
        from cometmq.spark.tables import table_of

        options = catalog_options(self.options)
        if options is None:
            return table_of(self.options).spark_schema()
        if "storePath" not in (words := Words(options)):
            words.check_known((*READING, *WRITING))
        return with_options(table_of(options).spark_schema(), options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from cometmq.spark.tables import table_of

        return table_of({**kept_options(schema), **self.options}).reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from cometmq.spark.tables import table_of

        return table_of({**kept_options(schema), **self.options}).stream_reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from cometmq.spark.sink import batch_writer

        return batch_writer({**kept_options(schema), **self.options}, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from cometmq.spark.sink import stream_writer

        return stream_writer({**kept_options(schema), **self.options}, schema, overwrite)


def revived(options: MutableMapping[str, str]) -> RocketSource:
    """The source with these options, in another process."""
    return RocketSource(CaseInsensitiveDict(options))
