"""Lists of topic names.

Mirrors: TopicList.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_list, as_object


def encode_topic_list(topics: Iterable[str], broker_addr: str | None = None) -> bytes:
    """`broker_addr` is where a client may ask for the broker's part of the system topics."""
    fields: dict[str, Any] = {"topicList": list(topics)}
    if broker_addr is not None:
        fields = {"brokerAddr": broker_addr, **fields}
    return fastjson.dumps(fields)


def decode_topic_list(data: bytes | memoryview) -> list[str]:
    fields = as_object(fastjson.loads(data), "the topic list")
    return [str(topic) for topic in as_list(fields.get("topicList") or [], "topicList")]
