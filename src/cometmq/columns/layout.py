"""The columns of a message: their names, their order and their Arrow types, declared once.

    topic            string                      as the record says: of a retry, the retry topic
    broker           string                      name of the broker
    queue            int32
    offset           int64                       within the queue
    message_id       string                      the id that its producer knows (UNIQ_KEY), or the broker's
    body             binary                      unpacked
    tags             string                      null if it has none
    keys             string                      separated by spaces, as sent; null if it has none
    properties       map<string, string>         all of them, the system's too
    born_time        timestamp[us, UTC]          null if the client claims a time outside of the years 1 to 9999
    store_time       timestamp[us, UTC]
    born_host        string                      ip:port
    reconsume_times  int32

Every field is nullable, so that a schema read back from files is the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

import pyarrow

from cometmq.errors import InvalidArgument

_TIME: Final = pyarrow.timestamp("us", tz="UTC")

TYPES: Final[dict[str, pyarrow.DataType]] = {
    "topic": pyarrow.string(),
    "broker": pyarrow.string(),
    "queue": pyarrow.int32(),
    "offset": pyarrow.int64(),
    "message_id": pyarrow.string(),
    "body": pyarrow.binary(),
    "tags": pyarrow.string(),
    "keys": pyarrow.string(),
    "properties": pyarrow.map_(pyarrow.string(), pyarrow.string()),
    "born_time": _TIME,
    "store_time": _TIME,
    "born_host": pyarrow.string(),
    "reconsume_times": pyarrow.int32(),
}
COLUMNS: Final = tuple(TYPES)


def schema(columns: Sequence[str] = COLUMNS) -> pyarrow.Schema:
    """The Arrow schema of these columns, in the order given."""
    for name in columns:
        if name not in TYPES:
            near = get_close_matches(name, COLUMNS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COLUMNS)}"
            raise InvalidArgument(f"a message has no column {name!r}: {hint}")
        if columns.count(name) > 1:
            raise InvalidArgument(f"the column {name} is asked for twice")
    return pyarrow.schema([pyarrow.field(name, TYPES[name]) for name in columns])
