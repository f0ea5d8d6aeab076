"""The stream reader: where each batch ends, within the limits of a trigger; tasks read as in a batch read.

One lives in a Python process of the driver as long as the query; others, made anew, only read in tasks. Queues and
brokers that come are found with every trigger; those that go are waited for, `retryTimeoutMs` long, and nothing of
what they hold is passed over.

Invariants: the end of a batch is never before its start; an offset that is the same is the same text; with
Trigger.AvailableNow nothing behind the target is read, so the query ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from cometmq.errors import CometError, PeerUnreachable
from cometmq.model.queue import MessageQueue
from cometmq.spark.batch import partitions_of, read_partition, with_batches
from cometmq.spark.carried import carried
from cometmq.spark.cluster import Cluster, Span, by_broker, cluster_of, patiently, worth_another
from cometmq.spark.offsets import GROUP, Offsets, StreamOffset, ranges_between
from cometmq.spark.options import ReadOptions
from cometmq.spark.places import lose, starts_of
from cometmq.spark.planning import admit, admit_bytes
from cometmq.spark.sampling import message_sizes
from cometmq.spark.shapes import shape_of

log = logging.getLogger("cometmq.spark")

Spans = dict[MessageQueue, Span]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Messages as they come."""

    def __init__(self, given: Mapping[str, str], columns: Sequence[str]) -> None:
        self._given = dict(given)
        self._columns = tuple(columns)
        self._options = ReadOptions.of(given, is_stream=True)
        self._shape = shape_of(given, self._columns)
        self._target: Offsets | None = None  # with Trigger.AvailableNow
        self._gone_since_s: dict[str, float] = {}  # brokers that do not answer
        self._admitted_s = time.monotonic()  # when the last batch was let through
        self._committed: Offsets = {}
        self._latest: Offsets = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(StreamReader, self._given, self._columns)

    @property
    def _cluster(self) -> Cluster:
        return cluster_of(self._options.client)

    # --- where the stream begins

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        def look() -> StreamOffset:
            spans = self._all_spans({})
            return StreamOffset(starts_of(self._cluster, self._options, spans))

        return patiently(look, self._options.retry_ms, "looking where the stream begins").write()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        spans = patiently(lambda: self._all_spans({}), self._options.retry_ms, "looking how far the queues are")
        self._target = {queue: span.high for queue, span in spans.items()}
        self._latest = dict(self._target)

    def _all_spans(self, known: Offsets) -> Spans:
        """Of all queues; whoever does not answer fails it."""
        cluster = self._cluster
        return cluster.caught_up(cluster.spans({*cluster.queues(self._options.choice, known=known)}), known)

    # --- where a batch ends

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """One limit, though there may be several: Spark has no word for them together (`latestOffset` holds all)."""
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        before = StreamOffset.read(start)
        spans = self._reachable(before.ends)
        self._latest = {queue: span.high for queue, span in spans.items()}
        begins, starts = self._starts(before.ends, spans)
        ends = {queue: max(span.high, starts[queue]) for queue, span in spans.items()}
        if self._target is not None:
            ends = {
                queue: max(starts[queue], min(end, self._target[queue]))
                for queue, end in ends.items()
                if queue in self._target
            }
        if not isinstance(limit, ReadAllAvailable):
            if self._is_too_early(starts, ends):
                return start
            ends = self._limited(starts, ends)
        self._admitted_s = time.monotonic()
        after = StreamOffset(
            {**before.ends, **ends}, {queue: begin for queue, begin in begins.items() if queue in ends}
        )
        if after.ends == before.ends and all(ends[queue] == begin for queue, begin in after.begins.items()):
            return start
        return after.write()

    def _starts(self, before: Offsets, spans: Spans) -> tuple[Offsets, Offsets]:
        """Where reading goes on in each queue, and, first, where it begins anew."""
        begins: Offsets = {}
        starts: Offsets = {}
        is_fault = self._options.fail_on_data_loss
        for queue, (low, high) in spans.items():
            at = before.get(queue)
            if at is None:
                if low > 0:  # found while the stream runs, and it has lost its oldest: they were never promised
                    begins[queue] = low
                at = low
            elif at < low:
                lose(is_fault, queue, at, low, f"the queue begins at {low} now")
                at = begins[queue] = low
            elif at > high:
                lose(is_fault, queue, high, at, f"the queue ends at {high} now, and was read up to {at}")
                at = begins[queue] = low
            starts[queue] = at
        return begins, starts

    def _is_too_early(self, starts: Offsets, ends: Offsets) -> bool:
        options = self._options
        if options.min_offsets is None or self._target is not None:
            return False
        waiting = sum(ends[queue] - starts[queue] for queue in ends)
        return waiting < options.min_offsets and time.monotonic() < self._admitted_s + options.max_delay_ms / 1000

    def _limited(self, starts: Offsets, ends: Offsets) -> Offsets:
        options = self._options
        if options.max_offsets is not None:
            ends = admit(starts, ends, options.max_offsets)
        if options.max_bytes is not None:
            waiting = {queue: starts[queue] for queue, end in ends.items() if end > starts[queue]}
            sizes = patiently(
                lambda: message_sizes(self._cluster, waiting, options.group), options.retry_ms, "measuring messages"
            )
            ends = admit_bytes(starts, ends, sizes, options.max_bytes)
        return ends

    # --- who is there

    def _reachable(self, known: Offsets) -> Spans:
        """What can be read now. Who is away is waited for: at the next trigger, or here if there may be none."""
        if self._target is not None:
            wanted = {queue for queue in known if queue in self._target or self._options.fail_on_data_loss}

            def look() -> Spans:
                spans = self._all_spans(known)
                for queue in sorted(wanted - spans.keys()):
                    raise PeerUnreachable(_away(queue))
                return spans

            return patiently(look, self._options.retry_ms, "looking how far the queues are")
        cluster = self._cluster
        try:
            queues = cluster.queues(self._options.choice, known=known)
        except CometError as fault:
            self._is_away("the name servers", fault)
            return {}
        self._gone_since_s.pop("the name servers", None)
        spans: Spans = {}

        def caught_up(own: list[MessageQueue]) -> Spans:
            return cluster.caught_up(cluster.spans(own), known)

        for broker, own in by_broker(queues).items():
            try:
                spans.update(patiently(lambda own=own: caught_up(own), 0, "looking how far the queues are"))  # type: ignore[misc]
            except CometError as fault:
                self._is_away(broker, fault)
            else:
                self._gone_since_s.pop(broker, None)
        for queue in sorted(known.keys() - set(queues)):
            self._is_away(f"{queue.topic} on {queue.broker_name}", PeerUnreachable(_away(queue)))
        return spans

    def _is_away(self, who: str, fault: CometError) -> None:
        """Note that somebody does not answer; raise when it took too long."""
        now_s = time.monotonic()
        since_s = self._gone_since_s.setdefault(who, now_s)
        is_over = now_s >= since_s + self._options.retry_ms / 1000
        if not worth_another(fault) or (is_over and self._options.fail_on_data_loss):
            raise fault
        if since_s == now_s:
            log.warning("%s; the stream goes on without, for now", fault)

    # --- what Spark asks besides

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        if not self._latest:
            return None
        found = StreamOffset(self._latest).write()
        if self._options.commits:
            found[GROUP] = {"namesrvAddr": self._options.client.namesrv, "consumerGroup": self._options.group}
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        ranges = ranges_between(StreamOffset.read(start), StreamOffset.read(end))
        marked = patiently(lambda: with_batches(self._cluster, options, ranges), options.retry_ms, "planning a batch")
        return partitions_of(options, marked)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_partition(self._options, self._shape, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark is done with everything before `end`; it says so when the next batch begins."""
        if not self._options.commits:
            return
        done = StreamOffset.read(end).ends
        news = {queue: offset for queue, offset in done.items() if self._committed.get(queue) != offset}
        try:
            patiently(lambda: self._cluster.commit(self._options.group or "", news), 0, "committing the progress")
        except CometError as fault:  # the checkpoint is what counts; the next commit says it all again
            log.warning("the progress of %s was not committed: %s", self._options.group, fault)
        else:
            self._committed.update(news)


def _away(queue: MessageQueue) -> str:
    return (
        f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}, which the stream has read so far, is in no "
        "route any more: its broker is away, or the topic was deleted, made smaller, or may not be read any more"
    )
