"""How a consumer runs, as it tells an operator: `mqTable` and `mqPopTable` have queues as keys.

    {"mqTable":{{"brokerName":…,"queueId":0,"topic":…}:{"commitOffset":5,…}},"properties":{…},…}

Mirrors: ConsumerRunningInfo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cometmq.wire import fastjson
from cometmq.wire.bodies.queues import queue_to_json

_BY_QUEUE: Final = ("mqTable", "mqPopTable")


def encode_running_info(fields: Mapping[str, Any]) -> bytes:
    """The body; a table by queue is a mapping from `MessageQueue`."""
    parts = []
    for name, value in fields.items():
        if name in _BY_QUEUE:
            rows = [fastjson.dumps(queue_to_json(queue)) + b":" + fastjson.dumps(row) for queue, row in value.items()]
            text = b"{" + b",".join(rows) + b"}"
        else:
            text = fastjson.dumps(value)
        parts.append(fastjson.dumps(name) + b":" + text)
    return b"{" + b",".join(parts) + b"}"
