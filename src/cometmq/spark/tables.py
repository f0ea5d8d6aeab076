"""The tables there are: messages and traces (also as streams), consumer lag, topics, and the files of a store.

`table_of` chooses by the options. Each table tells its schema and gives its readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import pyarrow
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from cometmq.errors import InvalidArgument
from cometmq.spark.batch import BatchReader, NarrowingReader
from cometmq.spark.options import RATES, TABLES, ReadOptions, Words
from cometmq.spark.server_tables import ServerTableReader, check_options, server_schema
from cometmq.spark.shapes import arrow_schema, check_given_schema, chosen, spark_schema
from cometmq.spark.store_path import StoreTable
from cometmq.spark.stream import StreamReader


class Table(Protocol):
    """What a source asks."""

    def check(self) -> None:
        """Refuse what can be read neither at once nor as a stream, before anything is read."""
        ...

    def spark_schema(self) -> StructType: ...

    def reader(self, schema: StructType) -> DataSourceReader: ...

    def stream_reader(self, schema: StructType) -> DataSourceStreamReader: ...


def table_of(given: Mapping[str, str]) -> Table:
    """The table that these options mean."""
    words = Words(given)
    name = words.one_of("table", TABLES, "messages")
    if "storePath" in words:
        return StoreTable(given)
    if "list" in words:
        words.one_of("list", ("topics",), "topics")
        if "table" in words:
            raise InvalidArgument("the options list and table exclude each other")
        name = "topics"
    if name in ("lag", "topics"):
        return ServerTable(given, name)
    return MessageTable(given)


class MessageTable:
    """Messages, or the lines of traces."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)

    def check(self) -> None:
        is_stream = bool(Words(self._given).names(RATES))
        try:
            ReadOptions.of(self._given, is_stream=is_stream)
        except InvalidArgument:
            with suppress(InvalidArgument):
                ReadOptions.of(self._given, is_stream=not is_stream)
                return
            raise

    def spark_schema(self) -> StructType:
        return spark_schema(arrow_schema(self._given))

    def _columns(self, schema: StructType) -> tuple[str, ...]:
        return check_given_schema(schema, arrow_schema(self._given))

    def reader(self, schema: StructType) -> DataSourceReader:
        made = NarrowingReader if Words(self._given).flag("pushdown", False) else BatchReader
        return made(self._given, self._columns(schema))

    def stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        ReadOptions.of(self._given, is_stream=True)
        return StreamReader(self._given, self._columns(schema))


class ServerTable:
    """What servers tell about themselves; read at once, never as a stream."""

    def __init__(self, given: Mapping[str, str], name: str) -> None:
        self._given = dict(given)
        self._name = name

    def check(self) -> None:
        check_options(Words(self._given), self._name)

    def _schema(self) -> pyarrow.Schema:
        return chosen(Words(self._given), server_schema(self._name))

    def spark_schema(self) -> StructType:
        return spark_schema(self._schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        return ServerTableReader(self._given, self._name, check_given_schema(schema, self._schema()))

    def stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        raise InvalidArgument(f"the table {self._name} is no stream: read it with spark.read")
