"""What operators ask about consumption: who consumes a topic, how far and how late, and what a queue's units hold.

Mirrors: QueryTopicConsumeByWhoRequestHeader, QueryConsumeTimeSpanRequestHeader, QueryConsumeQueueRequestHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, request


@request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
class QueryTopicConsumeByWho(Header):
    topic: str


@request(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpan(Header):
    topic: str
    group: str | None = None


@request(RequestCode.QUERY_CONSUME_QUEUE)
class QueryConsumeQueue(Header):
    """With a group also what it wants of the topic."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: int = 0
    count: Int32 = 0
    consumer_group: str | None = None
