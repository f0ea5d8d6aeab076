"""One namespace of the NameServer's key-value settings.

Mirrors: KVTable.
"""

from __future__ import annotations

from collections.abc import Mapping

from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_object


def encode_kv_table(table: Mapping[str, str]) -> bytes:
    return fastjson.dumps({"table": dict(table)})


def decode_kv_table(data: bytes | memoryview) -> dict[str, str]:
    fields = as_object(fastjson.loads(data), "the key-value table")
    table = as_object(fields.get("table") or {}, "table")
    return {key: fastjson.text_of(value) for key, value in table.items() if value is not None}
