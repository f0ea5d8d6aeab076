"""`format("rocketmq-archive")`: a stream into Parquet files by date, which Spark's pipelines cannot do by themselves.

Options: `path`, a folder that all executors reach, and `timeColumn`, whose date (UTC) says where a row goes; that is
`store_time` unless told. A row is there once, also after a replay (`archive_files`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType, TimestampType

from cometmq.errors import InvalidArgument
from cometmq.spark.archive_files import Written, discard, put_in_place, write_files
from cometmq.spark.carried import carried


class ArchiveSink(DataSource):
    """Parquet files by date."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-archive"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return ArchiveWriter(*checked(self.options, schema))


def checked(given: Mapping[str, str], schema: StructType) -> tuple[str, str]:
    """Folder and column, if they can be used."""
    folder, column = folder_of(given), given.get("timeColumn", "store_time")
    kinds = {one.name: one.dataType for one in schema.fields}
    if not isinstance(kinds.get(column), TimestampType):
        raise InvalidArgument(
            f"rocketmq-archive: timeColumn is {column}, and the rows have no such column of timestamps"
        )
    return folder, column


def folder_of(given: Mapping[str, str]) -> str:
    """Where the files go."""
    path = given.get("path", "")
    folder = path.removeprefix("file://")
    if not folder.startswith("/"):
        raise InvalidArgument(
            "rocketmq-archive needs the option path, a folder that all executors reach, as an absolute path: "
            f"{path!r} is none"
        )
    return folder


@dataclass
class TaskFiles(WriterCommitMessage):
    """What one task wrote."""

    query: str
    files: list[tuple[str, str]] = field(default_factory=list)


class ArchiveWriter(DataSourceStreamArrowWriter):
    """Tasks write, the driver puts in place."""

    def __init__(self, path: str, column: str) -> None:
        self._path = path
        self._column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(ArchiveWriter, self._path, self._column)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query = str(context.getLocalProperty("sql.streaming.queryId"))
        batch = str(context.getLocalProperty("streaming.sql.batchId"))
        written = write_files(Path(self._path), f"{query}-{batch}", iterator, self._column)
        return TaskFiles(query, [(file.path, file.date) for file in written])

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        tasks = _tasks(messages)
        if tasks:
            files = [Written(*file) for task in tasks for file in task.files]
            put_in_place(Path(self._path), f"{tasks[0].query}-{batchId}", files)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        discard([Written(*file) for task in _tasks(messages) for file in task.files])


def _tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TaskFiles]:
    return [cast("TaskFiles", one) for one in messages if one is not None]
