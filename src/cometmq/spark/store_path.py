"""`storePath=DIR`: the CommitLog files of a store as a table, without a broker.

The driver finds the files and where the log ends, and cuts the log into ranges; each task reads some. What is read is
the log up to the end that the driver saw, also while a broker writes on; a task that is tried again sees the same rows.

The whole log is read: without `subscribe` or `subscribePattern` it shows every record, those of system topics too, and
a topic's messages even where its ConsumeQueue no longer does. Store times bound rows exactly (`startingTimestamp`,
`endingTimestamp`), whatever clocks did.

Bytes that are no record fail the read, with their place; `failOnDataLoss=false` says it in the log and reads on. Bytes
behind the log's end (a write cut short, or one under way) are said, and never were acknowledged as read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import pyarrow
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from cometmq.columns import RecordColumns
from cometmq.columns.bodies import Unpacker
from cometmq.columns.log_files import LogRange, Tail, check_gaps, find_end, find_files, share_out
from cometmq.columns.log_reading import read_range
from cometmq.columns.twins import make_walk
from cometmq.columns.walk import LONG_MAX, LONG_MIN
from cometmq.errors import InvalidArgument, StoreError
from cometmq.spark.carried import carried
from cometmq.spark.options import FILES, TABLES, Choice, Words, check_times, check_trace, choice_of, is_trace
from cometmq.spark.shapes import arrow_schema, check_given_schema, shape_of, spark_schema

CHOOSING: Final = ("subscribe", "subscribePattern", "dlq", "retry")
OPTIONS: Final = (
    *FILES, *CHOOSING, "startingTimestamp", "endingTimestamp", "minPartitions", "failOnDataLoss", "columns",
    "includeBody", "includeHeaders", "table", "traceTopic",
)  # fmt: skip
RANGE_SIZE_MIN: Final = 8 << 20
RANGE_SIZE_MAX: Final = 128 << 20
RANGES_PER_CORE: Final = 4
TOPICS_MAX: Final = 65_536  # verdicts on topics that are remembered

log = logging.getLogger("cometmq.spark")


class Topics:
    """The topics that are wanted; each is tested once."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._verdicts: dict[bytes, bool] = {}

    def __contains__(self, topic: object) -> bool:
        verdict = self._verdicts.get(cast("bytes", topic))
        if verdict is None:
            name = cast("bytes", topic).decode("utf-8", "replace")
            verdict = name in self._choice.topics or self._choice.matches(name)
            if len(self._verdicts) < TOPICS_MAX:
                self._verdicts[cast("bytes", topic)] = verdict
        return verdict


class StoreTable:
    """The messages of a store's files."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self.check()

    def check(self) -> None:
        check_options(Words(self._given))

    def spark_schema(self) -> StructType:
        return spark_schema(arrow_schema(self._given))

    def reader(self, schema: StructType) -> DataSourceReader:
        return StoreReader(self._given, check_given_schema(schema, arrow_schema(self._given)))

    def stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        raise InvalidArgument("storePath is read at once, with spark.read; for a stream, read from the broker")


def check_options(words: Words) -> None:
    """Refuse what does not go with files."""
    words.check_known(OPTIONS, "storePath, which asks no broker")
    if words.one_of("table", TABLES, "messages") in ("lag", "topics"):
        raise InvalidArgument(f"table={words.text('table')} is told by brokers, and does not go with storePath")
    check_trace(words)
    words.at_most_one(CHOOSING)
    check_times(words)


class StoreReader(DataSourceReader):
    """Plans on the driver, reads in the tasks."""

    def __init__(self, given: Mapping[str, str], columns: Sequence[str]) -> None:
        words = Words(given)
        self._given = dict(given)
        self._columns = tuple(columns)
        self._shape = shape_of(given, self._columns)
        self._path = words.text("storePath") or ""
        self._broker = words.text("brokerName")
        self._choice = choice_of(words) if words.names(CHOOSING) or is_trace(words) else None
        from_ms, until_ms = (words.number(name, at_least=0) for name in ("startingTimestamp", "endingTimestamp"))
        self._from_ms = LONG_MIN if from_ms is None else from_ms
        self._until_ms = LONG_MAX if until_ms is None else until_ms
        self._min_partitions = words.number("minPartitions")
        self._fails_on_loss = words.flag("failOnDataLoss", True)
        self._splits = words.flag("splitFiles", True)
        self._checks_crc = words.flag("checkCrc", True)

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(StoreReader, self._given, self._columns)

    def partitions(self) -> Sequence[InputPartition]:
        files = find_files(self._path)
        for gap in check_gaps(files):
            if self._fails_on_loss:
                raise StoreError(f"{gap}. Restore them, or read the rest with failOnDataLoss=false")
            log.warning("%s; going on, as failOnDataLoss is false", gap)
        tail = find_end(files)
        if tail.torn_size:
            log.warning(
                "%s: the log ends at byte %d; %d bytes behind it are no whole record: a write that was cut short, or "
                "one that a broker is making now",
                tail.file.path,
                tail.end,
                tail.torn_size,
            )
        return [InputPartition(tuple(one)) for one in share_out(files, tail, self._range_size(files[0].start, tail))]

    def _range_size(self, first: int, tail: Tail) -> int:
        if not self._splits:
            return LONG_MAX
        total = tail.file.start + tail.end - first
        if self._min_partitions:
            return max(1, total // self._min_partitions)
        wanted = RANGES_PER_CORE * (os.cpu_count() or 1)
        return min(max(total // wanted, RANGE_SIZE_MIN), RANGE_SIZE_MAX)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if partition.value is None:  # Spark's way to say that there is no partition
            return
        unpack = Unpacker(None if self._fails_on_loss else log.warning)
        walk = make_walk(
            self._shape.walked,
            unpack=unpack,
            topics=None if self._choice is None else Topics(self._choice),
            from_ms=self._from_ms,
            until_ms=self._until_ms,
            check_crc=self._checks_crc,
        )
        columns = RecordColumns(self._shape.walked, self._broker, walk, unpack)
        change = self._shape.change
        for batch in read_range(
            LogRange(*partition.value), columns, skip_damage=not self._fails_on_loss, say=log.warning
        ):
            yield batch if change is None else change(batch)
