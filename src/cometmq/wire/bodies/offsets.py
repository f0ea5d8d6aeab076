"""The table of committed offsets as a reply.

    {"dataVersion":{…},"groupTopicMap":{"g":["t"]},"offsetTable":{"t@g":{0:5,1:7}},"pullOffsetTable":{}}

Queue ids stand bare, whatever the version of the peer: so Java writes them, and its slaves read them.

Mirrors: ConsumerOffsetManager.encode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cometmq.wire import fastjson


def encode_offsets(table: Mapping[str, Any]) -> bytes:
    """`table` is what `Offsets.to_json` gives."""
    parts = []
    for key, value in table.items():
        whole = _bare(value) if key in ("offsetTable", "pullOffsetTable") else fastjson.dumps(value)
        parts.append(fastjson.dumps(key) + b":" + whole)
    return b"{" + b",".join(parts) + b"}"


def _bare(queues: Mapping[str, Mapping[int, int]]) -> bytes:
    rows = []
    for key, offsets in queues.items():
        inner = ",".join([f"{queue_id}:{offset}" for queue_id, offset in offsets.items()])
        rows.append(fastjson.dumps(key) + b":{" + inner.encode() + b"}")
    return b"{" + b",".join(rows) + b"}"
