"""From rows to messages: which columns there may be, what they are, and the id of each row.

    body         binary or string       must be there, in every row
    topic        string                 unless the option `topic` names one for all; a row without one goes there
    tags keys shardingKey               string; keys may be an array of strings, too
    properties   map<string, string>    names that the system reserves are left out: rows that were read can be written
    delayLevel   a whole number         one of the broker's levels; 0 is none
    deliverAt    timestamp              or a whole number, in milliseconds since 1970

Names are taken in any case, with or without _ between words. An id tells the same row again after a replay: it is that
of `idColumn`, or is made of query, batch, partition and the number of the row, in the shape of the ids that clients
make (whose 11th to 14th byte is a time: here none, which tools read as the begin of the month).

Mirrors: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import pyarrow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cometmq.client.message import Message
from cometmq.errors import InvalidArgument
from cometmq.model.properties import RESERVED

_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_KINDS: Final[dict[str, tuple[str, tuple[type[DataType], ...]]]] = {
    "body": ("binary or string", (BinaryType, StringType)),
    "topic": ("string", (StringType,)),
    "tags": ("string", (StringType,)),
    "keys": ("string or array<string>", (StringType, ArrayType)),
    "properties": ("map<string, string>", (MapType,)),
    "shardingKey": ("string", (StringType,)),
    "delayLevel": ("int", _WHOLE),
    "deliverAt": ("timestamp, or bigint in milliseconds", (TimestampType, LongType)),
}
# What a table of the catalog has, if it does not say it.
_USUAL: Final = ("body", "tags", "keys", "properties")
_OF_A_TABLE: Final[dict[str, DataType]] = {
    "body": BinaryType(),
    "properties": MapType(StringType(), StringType()),
    "delayLevel": IntegerType(),
    "deliverAt": TimestampType(),
}
_ROWS_PER_HASH: Final = 1 << 16


def written_schema(columns: str | None, *, has_topic: bool, id_column: str | None) -> StructType:
    """The columns of a table that is written: those that are asked for, or the usual ones.

    `Body` is spelt so, and cannot be null, for the reasons in `catalog`.
    """
    usual = (*_USUAL, *(() if has_topic else ("topic",)), *((id_column,) if id_column else ()))
    spelt = {name.lower(): name for name in (*_KINDS, *((id_column,) if id_column else ()))}
    fields: list[StructField] = []
    for name in usual if columns is None else (part.strip() for part in columns.split(",")):
        found = spelt.get(name.lower().replace("_", "")) or spelt.get(name.lower())
        if found is None:
            raise InvalidArgument(_unknown(name, spelt))
        kind = _OF_A_TABLE.get(found, StringType())
        fields.append(StructField("Body", kind, False) if found == "body" else StructField(found, kind))
    return StructType(fields)


@dataclass(frozen=True, slots=True)
class Columns:
    """Where in a row what stands; columns that are not there have no place."""

    places: dict[str, int]
    id_at: int | None
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, topic: str | None, id_column: str | None) -> Columns:
        """Check the columns of what is to be written."""
        spelt = {name.lower(): name for name in _KINDS}
        places: dict[str, int] = {}
        id_at: int | None = None
        for at, field in enumerate(schema.fields):
            name = spelt.get(field.name.lower().replace("_", ""))
            if id_column is not None and field.name.lower() == id_column.lower():
                id_at = at
                if not isinstance(field.dataType, StringType):
                    raise InvalidArgument(
                        f"idColumn {field.name} is {field.dataType.simpleString()}; string is expected"
                    )
                if name is None:
                    continue
            if name is None:
                raise InvalidArgument(_unknown(field.name, spelt))
            kind, possible = _KINDS[name]
            if not isinstance(field.dataType, possible) or not _is_of_strings(field.dataType):
                raise InvalidArgument(f"the column {name} is {field.dataType.simpleString()}; {kind} is expected")
            if name in places:
                raise InvalidArgument(f"there are two columns {name}")
            places[name] = at
        if "body" not in places:
            raise InvalidArgument("there is no column body; make one, as with to_json(struct(*)) AS body")
        if "topic" not in places and topic is None:
            raise InvalidArgument('say where to write: .option("topic", "orders"), or a column topic')
        if id_column is not None and id_at is None:
            raise InvalidArgument(f"there is no column {id_column}, which the option idColumn names")
        if "delayLevel" in places and "deliverAt" in places:
            raise InvalidArgument("the columns delayLevel and deliverAt exclude each other")
        return cls(places, id_at, topic)

    @property
    def delay(self) -> str | None:
        """The column that lets messages wait, if there is one."""
        return next((name for name in ("delayLevel", "deliverAt") if name in self.places), None)

    @property
    def is_ordered(self) -> bool:
        return "shardingKey" in self.places

    def rows(self, batch: pyarrow.RecordBatch, first: int) -> Iterator[Row]:
        """The rows of an Arrow batch as messages; `first` is the number of its first row in the partition."""
        count = batch.num_rows
        lists = {name: batch.column(at).to_pylist() for name, at in self.places.items()}
        nothing = [None] * count
        ids = batch.column(self.id_at).to_pylist() if self.id_at is not None else nothing
        values = zip(*(lists.get(name, nothing) for name in _KINDS), ids, strict=True)
        for number, row in enumerate(values, first):
            try:
                yield self._row(row)
            except (ValueError, TypeError, OverflowError, OSError) as fault:
                raise InvalidArgument(f"row {number} of its partition cannot be written: {fault}") from None

    def _row(self, values: tuple[Any, ...]) -> Row:
        body, topic, tags, keys, found, sharding_key, level, at, own_id = values
        if body is None:
            raise InvalidArgument("its body is null")
        if topic is None:
            topic = self.topic
            if topic is None:
                raise InvalidArgument("its topic is null, and the option topic is not given")
        if self.id_at is not None and not own_id:
            raise InvalidArgument("its id (idColumn) is null or empty")
        if own_id is not None and ("\x01" in own_id or "\x02" in own_id):
            raise InvalidArgument("its id holds the character U+0001 or U+0002, which separates properties on the wire")
        message = Message(
            topic,
            body.encode() if isinstance(body, str) else body,
            tags=tags or None,
            keys=keys if keys is not None and not isinstance(keys, list) else tuple(keys or ()),
            properties={name: text for name, text in found if name not in RESERVED and text} if found else {},
            sharding_key=sharding_key,
        )
        return Row(message, own_id, level or None, _time(at) if at is not None else None)


class Row(NamedTuple):
    """One message to be, and when it is due."""

    message: Message
    id: str | None
    delay_level: int | None
    deliver_at: datetime | None


class Ids:
    """The ids of a partition's rows, each the same whenever it is asked for."""

    def __init__(self, query: str, batch: int, partition: int) -> None:
        self._of = f"{query} {batch} {partition}"
        self._block, self._hash = -1, ""

    def id(self, row: int) -> str:
        block, within = divmod(row, _ROWS_PER_HASH)
        if block != self._block:
            self._block = block
            self._hash = blake2b(f"{self._of} {block}".encode(), digest_size=10).hexdigest().upper()
        return f"{self._hash}00000000{within:04X}"


def _time(value: datetime | int) -> datetime:
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _is_of_strings(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    return True


def _unknown(name: str, spelt: dict[str, str]) -> str:
    near = get_close_matches(name.lower(), spelt, 1, 0.7)
    hint = f"did you mean {spelt[near[0]]}?" if near else f"there are {', '.join(_KINDS)}."
    return (
        f"the sink rocketmq has no column {name!r}: {hint} What else a message is to carry goes into its body, as with "
        "to_json(struct(*)), or into properties"
    )
