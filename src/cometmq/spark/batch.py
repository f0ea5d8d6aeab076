"""The batch reader: plans once, on the driver; every task then reads its ranges.

A reader travels as its options and columns (`carried`), so nothing of it may be open before a task runs. With the
option `pushdown=true` it is a `NarrowingReader`, which Spark tells of the query's `WHERE`: Spark refuses such readers
unless `spark.sql.python.filterPushdown.enabled` is set, so only who asks for one gets one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from cometmq.errors import InvalidArgument
from cometmq.spark.carried import carried
from cometmq.spark.cluster import Cluster, cluster_of, patiently
from cometmq.spark.filters import COLUMNS, PLACES, Narrowing, narrowing_of
from cometmq.spark.key_search import offsets_with_key
from cometmq.spark.offsets import Range
from cometmq.spark.options import ReadOptions, Words, is_trace
from cometmq.spark.places import check_order, ends_of, starts_of
from cometmq.spark.planning import share
from cometmq.spark.pulling import TOOLS_GROUP, PullSettings, read_ranges
from cometmq.spark.shapes import Shape, shape_of


class BatchReader(DataSourceReader):
    """Messages between two places."""

    def __init__(self, given: Mapping[str, str], columns: Sequence[str], narrowing: Narrowing | None = None) -> None:
        self._given = dict(given)
        self._columns = tuple(columns)
        self._options = ReadOptions.of(given, is_stream=False)
        self._shape = shape_of(given, self._columns)
        self._narrowing = narrowing or Narrowing()

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(revived, type(self).__name__, self._given, self._columns, self._narrowing.write())

    def partitions(self) -> Sequence[InputPartition]:
        ranges = patiently(self._plan, self._options.retry_ms, "planning the read")
        return partitions_of(self._options, ranges)

    def _plan(self) -> list[Range]:
        options, narrowing = self._options, self._narrowing
        cluster = cluster_of(options.client)
        queues = [queue for queue in cluster.queues(options.choice) if narrowing.takes(queue)]
        spans = cluster.spans(queues)
        starts, ends = starts_of(cluster, options, spans), ends_of(cluster, options, spans)
        check_order(options, spans)
        ranges = [
            Range(str(queue.topic), str(queue.broker_name), queue.queue_id, starts[queue], ends[queue])
            for queue in sorted(spans)
            if starts[queue] < ends[queue]
        ]
        ranges = with_batches(cluster, options, ranges, selects=narrowing.selects)
        return _narrowed(cluster, ranges, narrowing) if narrowing else ranges

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_partition(self._options, self._shape, partition, self._narrowing.tags)


class NarrowingReader(BatchReader):
    """The same, told what the query looks for; Spark still tests every row."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._narrowing = narrowing_of(filters, PLACES if is_trace(Words(self._given)) else COLUMNS)
        return filters


def revived(kind: str, given: Mapping[str, str], columns: Sequence[str], narrowing: dict[str, Any]) -> BatchReader:
    """The reader in another process."""
    made = NarrowingReader if kind == NarrowingReader.__name__ else BatchReader
    return made(given, columns, Narrowing.read(narrowing))


def with_batches(
    cluster: Cluster, options: ReadOptions, ranges: Sequence[Range], *, selects: bool = False
) -> list[Range]:
    """The ranges, with a mark on those whose messages lie in batches; `selects` by tag or key beside the options."""
    told = cluster.in_batches([one.place for one in ranges])
    for queue, are_batches in told.items():
        if are_batches and options.sql is not None:
            raise InvalidArgument(
                f"sqlFilter does not go with the topic {queue.topic}: its messages lie in batches "
                "(queue.type=BatchCQ), into which no broker looks. Use the option tags, or WHERE"
            )
    # Where a broker does not tell there may be some. A plain queue loses nothing by being read so, but time.
    unknown = options.sql is None and (options.tags is not None or selects)
    return [
        one._replace(in_batches=unknown if (are_batches := told[one.place]) is None else are_batches) for one in ranges
    ]


def partitions_of(options: ReadOptions, ranges: Sequence[Range]) -> list[InputPartition]:
    """What each task reads, in the form that Spark carries to it."""
    tasks = share(
        ranges,
        cores=os.cpu_count() or 1,
        min_partitions=options.min_partitions,
        max_records=options.max_records,
    )
    return [InputPartition([tuple(one) for one in task]) for task in tasks]


def read_partition(
    options: ReadOptions, shape: Shape, partition: InputPartition, tags: Iterable[str] | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """What one task reads."""
    if partition.value is None:  # Spark's way to say that there is no partition
        return iter(())
    wanted_tags = options.tags
    if tags is not None and wanted_tags is None and options.sql is None:
        wanted_tags = " || ".join(tags)
    settings = PullSettings(
        shape.walked,
        options.group or TOOLS_GROUP,
        wanted_tags,
        options.sql,
        options.fail_on_data_loss,
        options.retry_ms,
    )
    ranges = [Range(*one) for one in cast("list[tuple[str, str, int, int, int, bool]]", partition.value)]
    return read_ranges(cluster_of(options.client), ranges, settings, shape.change)


def _narrowed(cluster: Cluster, ranges: list[Range], narrowing: Narrowing) -> list[Range]:
    """The parts of ranges that can hold rows which the query looks for."""
    queues = [one.place for one in ranges]
    firsts = cluster.search(dict.fromkeys(queues, narrowing.time_low_ms)) if narrowing.time_low_ms is not None else {}
    lasts = cluster.search(dict.fromkeys(queues, narrowing.time_high_ms)) if narrowing.time_high_ms is not None else {}
    found: list[Range] = []
    for queue, one in zip(queues, ranges, strict=True):
        start = max(one.start, narrowing.offset_low, firsts.get(queue, 0))
        end = min(one.end, narrowing.offset_high, lasts.get(queue, one.end))
        if start < end:
            found.append(one._replace(start=start, end=end))
    if narrowing.key is None or not found:
        return found
    whole = [one for one in found if one.in_batches]
    return sorted(whole + offsets_with_key(cluster, [one for one in found if not one.in_batches], narrowing.key))
