"""The lines of message traces as rows: `option("table", "trace")`.

A trace message holds many lines; `client/trace_lines.py` draws them. A line that is of no known kind, or has fields
that cannot be read, is a row too: with what could be read, and the text itself under `line`.

Mirrors: TraceDataEncoder.decoderFromTraceDataString.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow

from cometmq.spark.offsets import LONG_MAX

WALKED: Final = ("broker", "queue", "offset", "body")

_TEXT: Final = pyarrow.string()
_TIME: Final = pyarrow.timestamp("us", tz="UTC")
SCHEMA: Final = pyarrow.schema(
    [
        ("kind", _TEXT),  # Pub, SubBefore, SubAfter, EndTransaction, Recall
        ("time", _TIME),
        ("region", _TEXT),
        ("group", _TEXT),
        ("topic", _TEXT),
        ("message_id", _TEXT),
        ("tags", _TEXT),
        ("keys", _TEXT),
        ("store_host", _TEXT),
        ("body_size", pyarrow.int64()),
        ("cost_ms", pyarrow.int64()),
        ("message_type", _TEXT),
        ("offset_message_id", _TEXT),
        ("success", pyarrow.bool_()),
        ("request_id", _TEXT),
        ("reconsume_times", pyarrow.int64()),
        ("outcome", _TEXT),
        ("transaction_id", _TEXT),
        ("transaction_state", _TEXT),
        ("from_check", pyarrow.bool_()),
        ("line", _TEXT),
        ("broker", _TEXT),
        ("queue", pyarrow.int32()),
        ("offset", pyarrow.int64()),
    ]
)
_FIELDS: Final = {
    "Pub": (
        "time", "region", "group", "topic", "message_id", "tags", "keys", "store_host", "body_size", "cost_ms",
        "message_type", "offset_message_id", "success",
    ),
    "SubBefore": ("time", "region", "group", "request_id", "message_id", "reconsume_times", "keys"),
    "SubAfter": ("request_id", "message_id", "cost_ms", "success", "keys", "outcome", "time", "group"),
    "EndTransaction": (
        "time", "region", "group", "topic", "message_id", "tags", "keys", "store_host", "message_type",
        "transaction_id", "transaction_state", "from_check",
    ),
    "Recall": ("time", "region", "group", "topic", "message_id", "success"),
}  # fmt: skip
_NAMES: Final = {
    "message_type": {"0": "Normal", "1": "TransactionHalf", "2": "TransactionCommit", "3": "Delay"},
    "outcome": {"0": "SUCCESS", "1": "TIME_OUT", "2": "EXCEPTION", "3": "RETURNED_NULL", "4": "FAILED"},
}
_TIME_MAX_MS: Final = 253_402_300_799_999  # year 9999


def rows_of(batch: pyarrow.RecordBatch, columns: Sequence[str]) -> pyarrow.RecordBatch:
    """All lines of some trace messages."""
    rows: list[dict[str, Any]] = []
    for broker, queue, offset, body in zip(*(batch.column(name).to_pylist() for name in WALKED), strict=True):
        rows += [
            {**read_line(line), "line": line, "broker": broker, "queue": queue, "offset": offset}
            for line in str(body or b"", "utf-8", "replace").split("\x02")
            if line
        ]
    fields = [SCHEMA.field(name) for name in columns]
    arrays = [pyarrow.array([row.get(field.name) for row in rows], field.type) for field in fields]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))


def read_line(line: str) -> dict[str, Any]:
    """What a line says, as far as it can be read."""
    kind, *values = line.split("\x01")
    names = _FIELDS.get(kind)
    if names is None:
        return {}
    found: dict[str, Any] = {"kind": kind}
    for name, text in zip(names, values, strict=False):  # older clients write fewer
        if text not in ("", "null"):
            found[name] = _value(name, text)
    return found


def _value(name: str, text: str) -> Any:
    kind = SCHEMA.field(name).type
    if kind == _TEXT:
        return _NAMES.get(name, {}).get(text, text)
    if kind == pyarrow.bool_():
        return {"true": True, "false": False}.get(text.lower())
    if not text.removeprefix("-").isdecimal() or abs(int(text)) > LONG_MAX:
        return None
    number = int(text)
    if kind == _TIME:
        return datetime.fromtimestamp(number / 1000, UTC) if 0 <= number <= _TIME_MAX_MS else None
    return number
