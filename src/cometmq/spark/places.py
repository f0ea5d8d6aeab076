"""Where reading starts and ends in every queue, from words, offsets and times that the user gave.

Runs on the driver. Offsets that have expired are a loss of data, which `failOnDataLoss` says what to do about;
offsets that never were are an error always.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from cometmq.errors import InvalidArgument, OffsetsLost
from cometmq.model.queue import MessageQueue
from cometmq.spark.cluster import Cluster, Span
from cometmq.spark.offsets import Offsets, QueueValues
from cometmq.spark.options import COMMITTED, EARLIEST, Place, ReadOptions

log = logging.getLogger("cometmq.spark")

Spans = Mapping[MessageQueue, Span]


def starts_of(cluster: Cluster, options: ReadOptions, spans: Spans) -> Offsets:
    """The first offset of each queue that is read."""
    if options.start_times_ms is not None:
        return _from_times(cluster, options, options.start_times_ms, spans)
    found = _placed(cluster, options, options.start, spans, "startingOffsets")
    if options.start == COMMITTED:
        spans = cluster.caught_up(dict(spans), found)
    for queue, offset in found.items():
        low, high = spans[queue]
        if offset > high:
            if options.start == COMMITTED:
                lose(options.fail_on_data_loss, queue, high, offset, f"the queue ends at {high} now")
                found[queue] = low
            else:
                raise InvalidArgument(f"startingOffsets names offset {offset} of {_text(queue)}, which ends at {high}")
        elif offset < low:
            lose(options.fail_on_data_loss, queue, offset, low, f"the queue begins at {low} now")
            found[queue] = low
    return found


def ends_of(cluster: Cluster, options: ReadOptions, spans: Spans) -> Offsets:
    """The offset of each queue behind the last one that is read."""
    times = options.end_times_ms
    if times is not None:
        times.check_known(list(spans))
        found = cluster.search({queue: times.of(queue) for queue in spans})
        return {queue: min(offset, spans[queue].high) for queue, offset in found.items()}
    found = _placed(cluster, options, options.end, spans, "endingOffsets")
    for queue, offset in found.items():
        if offset > spans[queue].high:
            raise InvalidArgument(
                f"endingOffsets names offset {offset} of {_text(queue)}, which ends at {spans[queue].high}"
            )
    return found


def check_order(options: ReadOptions, spans: Spans) -> None:
    """Refuse a start behind its end, as both were given: what has expired may move a start, and is no mistake."""
    start, end = options.start, options.end
    if isinstance(start, QueueValues) and isinstance(end, QueueValues):
        _check_order("startingOffsets", "endingOffsets", spans, lambda queue: (start.of(queue), end.of(queue)))
    first, last = options.start_times_ms, options.end_times_ms
    if first is not None and last is not None:
        _check_order("the starting timestamp", "its ending one", spans, lambda queue: (first.of(queue), last.of(queue)))


def _check_order(
    start_name: str, end_name: str, spans: Spans, places: Callable[[MessageQueue], tuple[int, int]]
) -> None:
    for queue, span in spans.items():
        start, end = (_meant(value, span) for value in places(queue))
        if start > end:
            raise InvalidArgument(f"{start_name} of {_text(queue)} is {start}, behind {end_name} {end}")


def _placed(cluster: Cluster, options: ReadOptions, place: Place, spans: Spans, name: str) -> Offsets:
    if isinstance(place, QueueValues):
        place.check_known(list(spans))
        return {queue: _meant(place.of(queue), span) for queue, span in spans.items()}
    if place == COMMITTED:
        kept = cluster.committed(options.group or "", spans)
        return {queue: kept.get(queue, span.low) for queue, span in spans.items()}
    return {queue: span.low if place == EARLIEST else span.high for queue, span in spans.items()}


def _meant(value: int, span: Span) -> int:
    """-2 is earliest and -1 latest, as in Kafka."""
    return span.low if value == -2 else span.high if value == -1 else value


def _from_times(cluster: Cluster, options: ReadOptions, times: QueueValues, spans: Spans) -> Offsets:
    times.check_known(list(spans))
    found = cluster.search({queue: times.of(queue) for queue in spans})
    for queue, offset in found.items():
        low, high = spans[queue]
        if offset >= high and not options.late_start_is_latest:
            raise InvalidArgument(
                f"{_text(queue)} has no message of {times.of(queue)} (milliseconds) or later. To begin with the next "
                "one that comes, set startingOffsetsByTimestampStrategy=latest"
            )
        found[queue] = min(max(offset, low), high)
    return found


def lose(is_fault: bool, queue: MessageQueue, start: int, end: int, why: str) -> None:
    """Raise, or say in the log, that messages cannot be read."""
    lost = OffsetsLost(str(queue.topic), str(queue.broker_name), queue.queue_id, start, end, why)
    if is_fault:
        raise lost
    log.warning("%s; going on, as failOnDataLoss is false", lost)


def _text(queue: MessageQueue) -> str:
    return f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}"
