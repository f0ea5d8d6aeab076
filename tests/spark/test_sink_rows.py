"""Options, columns and rows of the sink: what is taken, and what is refused in which words. No server, no Spark."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from pickle import dumps
from pickletools import genops
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cometmq.client.message import Receipt
from cometmq.errors import InvalidArgument
from cometmq.spark.sink import Plan, batch_writer, stream_writer
from cometmq.spark.sink_manifest import Attempt, Manifest, Mark
from cometmq.spark.sink_options import WriteOptions
from cometmq.spark.sink_rows import Columns, Ids, Row
from cometmq.spark.sink_sending import Piece, TaskSender
from cometmq.wire.bodies.positions import Position, unpack_positions

GOOD = {"namesrvAddr": "127.0.0.1:9876", "topic": "orders"}
EXACT = {**GOOD, "guarantee": "exactly-once"}
TEXT, NUMBER = StringType(), IntegerType()
KINDS: dict[str, tuple[DataType, Any]] = {
    "binary": (BinaryType(), pyarrow.binary()),
    "string": (TEXT, pyarrow.string()),
    "int": (NUMBER, pyarrow.int32()),
    "bigint": (LongType(), pyarrow.int64()),
    "double": (DoubleType(), pyarrow.float64()),
    "timestamp": (TimestampType(), pyarrow.timestamp("us", "UTC")),
    "array<string>": (ArrayType(TEXT), pyarrow.list_(pyarrow.string())),
    "array<int>": (ArrayType(NUMBER), pyarrow.list_(pyarrow.int32())),
    "map<string,string>": (MapType(TEXT, TEXT), pyarrow.map_(pyarrow.string(), pyarrow.string())),
    "map<string,int>": (MapType(TEXT, NUMBER), pyarrow.map_(pyarrow.string(), pyarrow.int32())),
}


def columns(text: str) -> StructType:
    """`name type, name type` as Spark's columns; Spark itself would need a JVM to read it."""
    parts = [part.split(" ") for part in text.split(", ")]
    return StructType([StructField(name, KINDS[kind][0]) for name, kind in parts])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topc": "orders"}, "no option 'topc': did you mean topic"),
        ({"secretKey": "s"}, "accessKey and secretKey go together"),
        ({"topic": "not a topic"}, "the option topic"),
        ({"namesrvAddr": ""}, "namesrvAddr is empty"),
        ({"guarantee": "once"}, "at-least-once or exactly-once is possible"),
        ({"guarantee": "exactly-once"}, "needs the option sinkLog"),
        ({"sinkLog": "/nowhere"}, "sinkLog is of guarantee=exactly-once"),
        ({"firstBatch": "7"}, "firstBatch is of streams with guarantee=exactly-once"),
        ({"writeId": "day-1"}, "writeId is of batch writes with guarantee=exactly-once"),
        ({"producerGroup": "no group!"}, "producerGroup"),
        ({"retryTimeoutMs": "soon"}, "whole number"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        WriteOptions.of({**GOOD, **options}, is_stream=False)


def test_write_ids_are_names_of_batch_writes(tmp_path: Path) -> None:
    exact = {**EXACT, "sinkLog": str(tmp_path)}
    assert WriteOptions.of({**exact, "writeId": "day-1"}, is_stream=False).write_id == "write-day-1"
    for wrong in ("a/b", "..", "x" * 101):
        with pytest.raises(InvalidArgument, match="writeId"):
            WriteOptions.of({**exact, "writeId": wrong}, is_stream=False)
    with pytest.raises(InvalidArgument, match="writeId"):
        WriteOptions.of({**exact, "writeId": "day-1"}, is_stream=True)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("tags string", "no column body"),
        ("bodi binary", "no column 'bodi': did you mean body"),
        ("body binary, price double", "no column 'price': there are body, topic"),
        ("body int", "body is int; binary or string is expected"),
        ("body binary, tags int", "tags is int; string is expected"),
        ("body binary, keys array<int>", "keys is array<int>"),
        ("body binary, properties map<string,int>", "properties is map<string,int>"),
        ("body binary, delayLevel double", "delayLevel is double"),
        ("body binary, deliverAt string", "deliverAt is string"),
        ("body binary, BODY binary", "two columns body"),
        ("body binary, delayLevel int, deliverAt timestamp", "exclude each other"),
    ],
)
def test_columns_that_are_refused(schema: str, reason: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Columns.of(columns(schema), "orders", None)
    assert reason in str(caught.value)


def test_topics_and_ids_come_from_somewhere() -> None:
    body = columns("body binary, nr int")
    with pytest.raises(InvalidArgument, match="say where to write"):
        Columns.of(columns("body binary"), None, None)
    with pytest.raises(InvalidArgument, match="no column id, which the option idColumn names"):
        Columns.of(columns("body binary"), "orders", "id")
    with pytest.raises(InvalidArgument, match="idColumn nr is int"):
        Columns.of(body, "orders", "nr")


@pytest.mark.parametrize("column", ["delayLevel int", "deliverAt timestamp"])
def test_half_messages_have_no_delay(tmp_path: Path, column: str) -> None:
    schema = columns(f"body binary, {column}")
    with pytest.raises(InvalidArgument, match="a half message has no delay"):
        Plan.of({**EXACT, "sinkLog": str(tmp_path)}, schema, False, is_stream=True)


@pytest.mark.parametrize("make", [batch_writer, stream_writer])
def test_writers_travel_as_plain_values(make: Any) -> None:
    """So that an executor without the package can read them, and say in words what it lacks."""
    writer = make(GOOD, columns("body binary, keys array<string>"), False)
    revive, arguments = writer.__reduce__()
    assert revive(*arguments)._plan == writer._plan
    packed = dumps(arguments)
    assert not [argument for code, argument, _ in genops(packed) if code.name in ("GLOBAL", "STACK_GLOBAL", "REDUCE")]


@pytest.mark.parametrize("is_stream", [False, True])
def test_topics_are_not_overwritten(is_stream: bool) -> None:
    with pytest.raises(InvalidArgument, match="cannot be overwritten"):
        Plan.of(GOOD, columns("body binary"), True, is_stream=is_stream)


def rows(
    schema: str, *values: tuple[Any, ...], topic: str | None = "orders", id_column: str | None = None
) -> list[Row]:
    fields = columns(schema)
    arrays = [
        pyarrow.array([row[at] for row in values], KINDS[field.dataType.simpleString()][1])
        for at, field in enumerate(fields.fields)
    ]
    batch = pyarrow.record_batch(arrays, names=fields.names)
    return list(Columns.of(fields, topic, id_column).rows(batch, 7))


def test_rows_become_messages() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    (one,) = rows("BODY string, keys string, deliver_at timestamp", ("é", "a b", at))
    assert (one.message.body, one.message.keys, one.deliver_at) == ("é".encode(), "a b", at)
    (one,) = rows("body binary, keys array<string>, deliverAt bigint", (b"x", ["a", "b"], 1_000))
    assert one.message.keys == ("a", "b")
    assert one.deliver_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    found = [("a", "1"), ("UNIQ_KEY", "x"), ("KEYS", "x"), ("empty", None)]
    (one,) = rows("body binary, properties map<string,string>, delayLevel int", (b"x", found, 0))
    assert one.message.properties == {"a": "1"}
    assert one.delay_level is None
    (one,) = rows("body binary, topic string, nr string", (b"x", "other", "id-1"), id_column="NR")
    assert (one.message.topic, one.id) == ("other", "id-1")


@pytest.mark.parametrize(
    ("schema", "row", "reason"),
    [
        ("body string", (None,), "its body is null"),
        ("body string", ("",), "the body is empty"),
        ("body string, tags string", ("x", "a||b"), r"holds a \|"),
        ("body string, tags string", ("x", "a\x01b"), "separates properties"),
        ("body string, topic string", ("x", "no topic"), "topic"),
        ("body string, shardingKey string", ("x", ""), "sharding key"),
        ("body string, keys array<string>", ("x", ["a b"]), "holds a space"),
        ("body string, keys array<string>", ("x", [None]), "a key is a str"),
        ("body string, properties map<string,string>", ("x", [("a", "b\x02")]), "separates properties"),
        ("body string, deliverAt bigint", ("x", 1 << 62), "row 7"),
    ],
)
def test_rows_that_are_refused_are_named(schema: str, row: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=f"row 7 of its partition cannot be written.*{reason}|{reason}"):
        rows(schema, row)


@pytest.mark.parametrize("value", [None, "", "a\x01"])
def test_ids_that_are_refused(value: str | None) -> None:
    with pytest.raises(InvalidArgument, match="its id"):
        rows("body string, nr string", ("x", value), id_column="nr")


def test_rows_without_topic_need_the_option() -> None:
    with pytest.raises(InvalidArgument, match="its topic is null"):
        rows("body string, topic string", ("x", None), topic=None)


def test_ids_are_stable_and_differ() -> None:
    again = Ids("query", 3, 1)
    assert again.id(70_000) == Ids("query", 3, 1).id(70_000)
    made = {
        Ids(*piece).id(row) for piece in (("q", 1, 2), ("q", 12, 0), ("q", 1, 0), ("r", 1, 2)) for row in (0, 1, 65_536)
    }
    assert len(made) == 12
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in made)
    assert again.id(5)[20:28] == "00000000"


NAMES = st.text("abc-0123456789", min_size=1, max_size=8)
ATTEMPTS = st.builds(
    Attempt, st.integers(0, 1000), NAMES, st.lists(NAMES).map(tuple), st.dictionaries(NAMES, st.binary(min_size=1))
)
COUNTS = st.integers(0, 1 << 40)
MANIFESTS = st.builds(Manifest, NAMES, COUNTS, NAMES, COUNTS, st.lists(ATTEMPTS, max_size=4).map(tuple))


@given(MANIFESTS)
def test_manifests_come_back(manifest: Manifest) -> None:
    assert Manifest.decode(manifest.encode()) == manifest


@given(MANIFESTS, st.data())
def test_a_manifest_with_one_byte_changed_is_refused(manifest: Manifest, data: st.DataObject) -> None:
    text = bytearray(manifest.encode())
    text[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = Manifest.decode(bytes(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    assert found == manifest  # as where a blank became another one


@pytest.mark.parametrize("text", ["", "a b c", "../x 1 2 a", "q -1 2 a", "q 1 x a", "q 1 2 a b", ". 1 2 a"])
def test_marks_that_no_sink_wrote(text: str) -> None:
    assert Mark.parse(text) is None


def test_marks_come_back() -> None:
    mark = Mark("write-day_1.2", 3, 4, "abc")
    assert Mark.parse(mark.text) == mark


def test_a_task_keeps_a_few_bytes_of_each_row(tmp_path: Path) -> None:
    """Where its half messages stand, for the manifest: as many as a partition has rows."""
    plan = Plan(WriteOptions.of({**EXACT, "sinkLog": str(tmp_path)}, is_stream=True), Columns({}, None, "orders"), {})
    sender = TaskSender(plan.options, plan.columns, Piece("query", 0, 0))
    count, size = 50_000, 1_000

    def receipts(first: int) -> list[Receipt]:
        return [
            Receipt("id", "orders", "broker-a", 0, row, f"7F00000100002A9F{row * 300:016X}")
            for row in range(first, first + size)
        ]

    sender._take(receipts(0))
    tracemalloc.start()
    for first in range(size, size + count, size):
        sender._take(receipts(first))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 8 * count
    assert sender.count == count + size
    (places,) = sender._written.places.values()
    assert unpack_positions(places)[-1] == Position(count + size - 1, (count + size - 1) * 300)
