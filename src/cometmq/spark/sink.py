"""The sink: what `write` and `writeStream` of `format("rocketmq")` make.

    at-least-once   tasks send, and end when brokers have acknowledged every row; the driver has nothing to do
    exactly-once    tasks send half messages; the driver decides and delivers (`sink_ends`, `sink_log`)

Spark makes a writer on the driver for every batch, sends it to the tasks, and makes another one to commit; so writers
hold options and what the log listed when they were made, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from cometmq.errors import InvalidArgument
from cometmq.spark.carried import carried
from cometmq.spark.connecting import revived_client
from cometmq.spark.sink_clients import check_sure, producer_of, run, tries, writable
from cometmq.spark.sink_ends import Decider
from cometmq.spark.sink_log import BatchUnknown
from cometmq.spark.sink_manifest import Attempt
from cometmq.spark.sink_options import WriteOptions
from cometmq.spark.sink_rows import Columns
from cometmq.spark.sink_sending import TASKS_SUFFIX, Piece, TaskSender

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    """What a task did with its rows; without `attempt` it left them alone, because the batch is decided already."""

    query: str
    batch: int
    attempt: Attempt | None
    count: int


@dataclass(frozen=True)
class Plan:
    """What writers carry to the tasks."""

    options: WriteOptions
    columns: Columns
    listed: Mapping[str, int]  # the last batch of each query that is decided

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType, overwrite: bool, *, is_stream: bool) -> Plan:
        if overwrite:
            raise InvalidArgument(
                "a topic cannot be overwritten: "
                + ("use outputMode append or update" if is_stream else 'use mode("append")')
            )
        options = WriteOptions.of(given, is_stream=is_stream)
        columns = Columns.of(schema, options.topic, options.id_column)
        if not options.exactly_once:
            return cls(options, columns, {})
        if columns.delay is not None:
            raise InvalidArgument(
                f"the column {columns.delay} and guarantee=exactly-once exclude each other: a half message has no delay"
            )
        if options.topic is not None:
            _check_topic(options, options.topic)
        return cls(options, columns, options.log().streams() if is_stream else _last_of(options))

    @classmethod
    def revived(cls, plain: dict[str, Any]) -> Plan:
        """What `asdict` made plain values of: executors must be able to read them before they load this package."""
        options = {**plain["options"], "client": revived_client(plain["options"]["client"])}
        return cls(WriteOptions(**options), Columns(**plain["columns"]), plain["listed"])

    def write(self, batches: Iterator[pyarrow.RecordBatch], piece: Piece) -> Written:
        last = self.listed.get(piece.query, -1)
        if piece.batch <= last:
            return Written(piece.query, piece.batch, None, sum(batch.num_rows for batch in batches))
        if self.options.exactly_once and piece.batch not in (last + 1, self.options.first_batch):
            raise BatchUnknown(_unknown(piece, last, self.options.sink_log))
        sender = TaskSender(self.options, self.columns, piece)
        attempt = sender.write(batches)
        return Written(piece.query, piece.batch, attempt if self.options.exactly_once else None, sender.count)

    def commit(self, written: Sequence[WriterCommitMessage | None]) -> None:
        if not self.options.exactly_once:
            return
        decider = Decider(self.options)
        done = [one for one in written if isinstance(one, Written)]
        if not done:
            decider.finish()
            return
        query, batch, rows = done[0].query, done[0].batch, sum(one.count for one in done)
        attempts = [one.attempt for one in done if one.attempt is not None]
        if len(attempts) == len(done):
            decider.commit(query, batch, rows, attempts)
        else:
            decider.repeat(query, batch, rows)

    def abort(self, written: Sequence[WriterCommitMessage | None], query: str | None = None) -> None:
        """Of a batch write the query is known, of a stream only by what its tasks have told."""
        done = [one for one in written if isinstance(one, Written) and one.attempt is not None]
        if self.options.exactly_once and (done or query is not None):
            attempts = [one.attempt for one in done if one.attempt is not None]
            query, batch = (done[0].query, done[0].batch) if query is None else (query, 0)
            is_over = query == self.options.write_id and not self.options.is_named
            Decider(self.options).abort(query, batch, attempts, for_good=is_over)


class BatchWriter(DataSourceArrowWriter):
    """Writes a table, once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(revived_batch_writer, asdict(self._plan))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self._plan.write(iterator, Piece(self._plan.options.write_id, 0, _task().partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._plan.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._plan.abort(messages, self._plan.options.write_id)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one batch of a stream after the other."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(revived_stream_writer, asdict(self._plan))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        task = _task()
        query, batch = task.getLocalProperty(QUERY_PROPERTY), task.getLocalProperty(BATCH_PROPERTY)
        if query is None or batch is None:
            raise InvalidArgument("this version of Spark does not tell its tasks which query and batch they are of")
        return self._plan.write(iterator, Piece(query, int(batch), task.partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._plan.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._plan.abort(messages)


def revived_batch_writer(plan: dict[str, Any]) -> BatchWriter:
    """The writer of a plan, in another process."""
    return BatchWriter(Plan.revived(plan))


def revived_stream_writer(plan: dict[str, Any]) -> StreamWriter:
    return StreamWriter(Plan.revived(plan))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    return BatchWriter(Plan.of(options, schema, overwrite, is_stream=False))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    return StreamWriter(Plan.of(options, schema, overwrite, is_stream=True))


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None
    return task


def _check_topic(options: WriteOptions, topic: str) -> None:
    """Say on the driver, before the first task, that a broker cannot do it."""

    async def check() -> None:
        producer = await producer_of(options.client, f"{options.group}{TASKS_SUFFIX}")
        async for one in tries(options.retry_ms):
            with one:
                for queue in await writable(producer, topic):
                    await check_sure(producer, options.client.namesrv, queue.broker_name or "")

    run(check)


def _last_of(options: WriteOptions) -> dict[str, int]:
    """Whether a batch write was decided before."""
    last = options.log().last(options.write_id)
    return {} if last is None else {options.write_id: last}


def _unknown(piece: Piece, last: int, sink_log: str | None) -> str:
    known = f"knows its batches only up to {last}" if last >= 0 else "knows nothing of it"
    return (
        f"batch {piece.batch} of {piece.query} is to be written, and {sink_log} (sinkLog) {known}: it may have been "
        "delivered before, and nobody can tell. Bring back the sinkLog that goes with the checkpoint. If this query "
        f'has not used it so far, say so once: .option("firstBatch", "{piece.batch}")'
    )
