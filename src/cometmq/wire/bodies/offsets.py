"""The table of committed offsets as a reply, and the offsets of single queues.

    {"dataVersion":{…},"groupTopicMap":{"g":["t"]},"offsetTable":{"t@g":{0:5,1:7}},"pullOffsetTable":{}}

Queue ids stand bare, whatever the version of the peer: so Java writes them, and its slaves read them.

Mirrors: ConsumerOffsetManager.encode, ResetOffsetBody, ResetOffsetBodyForC, GetConsumerStatusBody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cometmq.model.queue import MessageQueue
from cometmq.wire import fastjson
from cometmq.wire.bodies.queues import queue_to_json
from cometmq.wire.bodies.reading import as_object, text, whole


def encode_offsets(table: Mapping[str, Any]) -> bytes:
    """`table` is what `Offsets.to_json` gives.

    Java writes both tables with bare keys, and a Java slave then stumbles over the second, which it means to skip.
    """
    parts = []
    for key, value in table.items():
        whole = _bare(value) if key == "offsetTable" else fastjson.dumps(value)
        parts.append(fastjson.dumps(key) + b":" + whole)
    return b"{" + b",".join(parts) + b"}"


def encode_queue_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """`{"offsetTable":{{"brokerName":…,"queueId":0,"topic":…}:5}}`: the keys are objects, as only fastjson has them."""
    rows = [fastjson.dumps(queue_to_json(queue)) + b":%d" % offset for queue, offset in offsets.items()]
    return b'{"offsetTable":{' + b",".join(rows) + b"}}"


def encode_queue_offset_list(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The same for clients written in C++: `{"offsetTable":[{"brokerName":…,"offset":5,"queueId":0,"topic":…}]}`"""
    return fastjson.dumps({"offsetTable": [queue_to_json(queue) | {"offset": at} for queue, at in offsets.items()]})


# A queue as the key of a map: an object without further objects in it, then its offset.
_QUEUE_OFFSET: Final = re.compile(rb"(\{[^{}]*+\})\s*+:\s*+(-?\d{1,19})")


def decode_queue_offsets(body: bytes | memoryview) -> dict[MessageQueue, int]:
    """Read what `encode_queue_offsets` wrote, under whatever name the table stands."""
    found: dict[MessageQueue, int] = {}
    for key, offset in _QUEUE_OFFSET.findall(bytes(body)):
        fields = as_object(fastjson.loads(key), "a queue")
        found[MessageQueue(text(fields, "topic"), text(fields, "brokerName"), whole(fields, "queueId"))] = int(offset)
    return found


def encode_queue_status(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The answer of a client that is asked how far it is: `{"messageQueueTable":{…}}`, written like the above."""
    return encode_queue_offsets(offsets).replace(b"offsetTable", b"messageQueueTable", 1)


def _bare(queues: Mapping[str, Mapping[int, int]]) -> bytes:
    rows = []
    for key, offsets in queues.items():
        inner = ",".join([f"{queue_id}:{offset}" for queue_id, offset in offsets.items()])
        rows.append(fastjson.dumps(key) + b":{" + inner.encode() + b"}")
    return b"{" + b",".join(rows) + b"}"
