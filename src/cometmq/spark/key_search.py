"""Finding messages by key in the brokers' index, so that a query for one key does not read whole queues.

The index answers with records; only where they stand is taken from it, and they are then read as all others are. It is
trusted only where it must be complete: it has come as far as the last message of the ranges, and what it found is less
than it would give at most. Otherwise the ranges are read as they are. An index that was switched off for a time
(`messageIndexEnable`) cannot be told from one that was not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from cometmq.errors import CometError
from cometmq.model.properties import UNIQ_KEY
from cometmq.model.sysflag import PullFlag
from cometmq.spark.cluster import Cluster
from cometmq.spark.offsets import LONG_MAX, Range
from cometmq.spark.pulling import TOOLS_GROUP
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.query import QueryMessage, QueryMessageReply

ASKED_FOR: Final = 64
TRUSTED_MAX: Final = 24  # brokers give 32 or 64 at most, unless told otherwise


def offsets_with_key(cluster: Cluster, ranges: Sequence[Range], key: str) -> list[Range]:
    """Ranges of one message each; or, where the index cannot be trusted, the ranges as they were."""
    found: list[Range] = []
    grouped: dict[tuple[str, str], list[Range]] = defaultdict(list)
    for one in ranges:
        grouped[one.topic, one.broker].append(one)
    for (topic, broker), own in grouped.items():
        try:
            places = _places(cluster, topic, broker, own, key)
        except CometError:
            places = None
        if places is None:
            found += own
        else:
            found += [
                one._replace(start=offset, end=offset + 1)
                for one in own
                for queue, offset in sorted(places)
                if queue == one.queue and one.start <= offset < one.end
            ]
    return found


def _places(
    cluster: Cluster, topic: str, broker: str, ranges: Sequence[Range], key: str
) -> set[tuple[int, int]] | None:
    """Queue and offset of what the index knows of a key; None if it may not know all."""
    last = _last(cluster, broker, ranges)
    answer = _query(cluster, broker, QueryMessage(ASKED_FOR, 0, LONG_MAX, topic, key))
    records = list(decode_records(answer.body)) if answer.code == ResponseCode.SUCCESS else []
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        # This answer does not tell how far the index is; the one that finds the last message does.
        unique = last.properties.get(UNIQ_KEY) or ""
        answer = _query(cluster, broker, QueryMessage(1, 0, LONG_MAX, topic, unique, unique_key=True))
    if answer.code != ResponseCode.SUCCESS or len(records) > TRUSTED_MAX:
        return None
    if last.physical_offset > QueryMessageReply.read(answer.ext).index_last_update_phyoffset:
        return None
    return {(record.queue_id, record.queue_offset) for record in records if record.topic == topic}


def _query(cluster: Cluster, broker: str, request: QueryMessage) -> Command:
    channel = cluster.channel(broker)
    (number,) = channel.ask(request)
    return channel.answer(number, timeout_ms=cluster.options.request_timeout_ms)


def _last(cluster: Cluster, broker: str, ranges: Sequence[Range]) -> Record:
    """The message of these ranges that stands last in the log."""
    requests = [
        PullMessage(TOOLS_GROUP, one.topic, one.queue, one.end - 1, 1, int(PullFlag.SUBSCRIPTION), 0, 0, 0, "*")
        for one in ranges
    ]
    answers = cluster.call_all(broker, requests)
    records = [record for answer in answers for record in decode_records(answer.body)]
    return max(records, key=lambda record: record.physical_offset)
