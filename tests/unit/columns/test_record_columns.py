"""Records become rows: every column, every kind of host and property, filters, and bytes that are no records."""

from __future__ import annotations

import os
import shutil
import sysconfig
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pytest
from tests.unit.columns.conftest import MakeColumns
from tests.unit.columns.records import BORN_MS, make_record

from cometmq import compiled
from cometmq.client.compression import Compression, compress
from cometmq.columns import COLUMNS, schema
from cometmq.columns.bodies import Unpacker
from cometmq.columns.walk import Stop
from cometmq.errors import CorruptRecord, InvalidArgument, ProtocolError
from cometmq.wire.record import encode_blank, pack_host


def test_every_column(make_columns: MakeColumns) -> None:
    columns = make_columns()
    assert columns.add(make_record(reconsume_times=3)) == 1
    batch = columns.batch()
    batch.validate(full=True)
    assert batch.schema == schema(COLUMNS)
    born = datetime.fromtimestamp(BORN_MS / 1000, UTC)
    assert batch.to_pylist() == [
        {
            "topic": "orders",
            "broker": "broker-a",
            "queue": 2,
            "offset": 7,
            "message_id": "ID",
            "body": b"42 EUR",
            "tags": "paid",
            "keys": "k1 k2",
            "properties": [("UNIQ_KEY", "ID"), ("TAGS", "paid"), ("KEYS", "k1 k2")],
            "born_time": born,
            "store_time": born.replace(microsecond=124_000),
            "born_host": "10.0.0.1:40000",
            "reconsume_times": 3,
        }
    ]


def test_batches_begin_anew(make_columns: MakeColumns) -> None:
    columns = make_columns(["offset", "tags", "properties"])
    for offset in range(3):
        columns.add(make_record(offset=offset) * 2)
        assert columns.rows == 2
        assert columns.size > 0
        assert columns.batch()["offset"].to_pylist() == [offset, offset]
    assert (columns.rows, columns.size) == (0, 0)
    empty = columns.batch()
    empty.validate(full=True)
    assert empty.num_rows == 0


def test_columns_in_the_order_asked_for(make_columns: MakeColumns) -> None:
    columns = make_columns(["body", "broker", "topic"])
    columns.add(make_record())
    assert columns.batch().to_pylist() == [{"body": b"42 EUR", "broker": "broker-a", "topic": "orders"}]


def test_no_column_still_counts(make_columns: MakeColumns) -> None:
    columns = make_columns([])
    columns.add(make_record() * 5)
    assert columns.batch().num_rows == 5


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", []),
        (b"A\x01b", [("A", "b")]),
        (b"A\x01b\x01c\x02", [("A", "b\x01c")]),
        (b"A\x01\x02\x01x\x02junk\x02\x02B\x012\x02", [("B", "2")]),
        (b"A\x011\x02B\x012\x02A\x013\x02", [("A", "3"), ("B", "2")]),
        ("Größe\x01大\x02".encode(), [("Größe", "大")]),
        (b"A\x01\xff\xfe\x02", [("A", "\ufffd\ufffd")]),
        (b"".join(b"K%d\x01v\x02" % number for number in range(100)), [(f"K{number}", "v") for number in range(100)]),
    ],
)
def test_properties(make_columns: MakeColumns, data: bytes, found: list[tuple[str, str]]) -> None:
    columns = make_columns(["tags", "properties", "message_id"])
    columns.add(make_record(properties=data))
    batch = columns.batch()
    batch.validate(full=True)
    assert batch["properties"].to_pylist() == [found]
    assert batch["tags"].to_pylist() == [None]
    assert batch["message_id"].to_pylist() == ["0A00000200002A9F0000000000000000"]


def test_some_have_tags(make_columns: MakeColumns) -> None:
    columns = make_columns(["tags", "keys"])
    given = ["a", None, "b", None, None, "c", "d", "e", None, "\xe9"]
    for tags in given:
        columns.add(make_record(properties=b"" if tags is None else f"TAGS\x01{tags}\x02".encode()))
    batch = columns.batch()
    batch.validate(full=True)
    assert batch["tags"].to_pylist() == given
    assert batch["keys"].null_count == len(given)


@pytest.mark.parametrize(
    ("host", "text"),
    [
        (pack_host("255.10.0.9", 65_535), "255.10.0.9:65535"),
        (pack_host("0.0.0.0", 0), "0.0.0.0:0"),
        (b"\x01\x02\x03\x04\xff\xff\xff\xff", "1.2.3.4:4294967295"),
        (pack_host("2001:db8::1", 80), "[2001:db8::1]:80"),
    ],
)
def test_hosts(make_columns: MakeColumns, host: bytes, text: str) -> None:
    columns = make_columns(["born_host", "message_id", "store_time", "reconsume_times", "body"])
    columns.add(make_record(born_host=host, store_host=host, properties=b"", position=0xABC, reconsume_times=9))
    (row,) = columns.batch().to_pylist()
    assert row["born_host"] == text
    assert row["message_id"] == host.hex().upper() + "0000000000000ABC"
    assert (row["reconsume_times"], row["body"]) == (9, b"42 EUR")
    assert row["store_time"].timestamp() == (BORN_MS + 1) / 1000


def test_impossible_times_are_null(make_columns: MakeColumns) -> None:
    columns = make_columns(["born_time"])
    for born_ms in ((1 << 63) - 1, 0, -(1 << 63), -1):
        columns.add(make_record(born_ms=born_ms))
    assert [time is None for time in columns.batch()["born_time"].to_pylist()] == [True, False, True, False]


@pytest.mark.parametrize("kind", list(Compression))
def test_packed_bodies_are_unpacked(make_columns: MakeColumns, kind: Compression) -> None:
    columns = make_columns(["body"])
    columns.add(make_record(body=compress(b"long " * 99, kind), sys_flag=kind.sys_flag))
    assert columns.batch()["body"].to_pylist() == [b"long " * 99]


@pytest.mark.parametrize("columns", [["body", "offset"], ["offset"]])
def test_rows_may_lack_a_body_that_cannot_be_unpacked(make_columns: MakeColumns, columns: list[str]) -> None:
    said: list[str] = []
    made = make_columns(columns, unpack=Unpacker(said.append))
    sound = make_record(body=compress(b"long " * 99, Compression.ZLIB), sys_flag=Compression.ZLIB.sys_flag)
    for _ in range(2):  # nothing is left from the batch before
        for is_sound in (True, False, False, True):
            made.add(sound if is_sound else make_record(body=b"garbage", sys_flag=Compression.ZLIB.sys_flag))
        batch = made.batch()
        assert batch.num_rows == 4
        if "body" in columns:
            assert batch["body"].to_pylist() == [b"long " * 99, None, None, b"long " * 99]
            assert batch.schema == made.schema
    made.add(sound)
    assert made.batch().column(0).null_count == 0
    assert len(said) == (4 if "body" in columns else 0)


def test_a_body_that_cannot_be_unpacked_says_where(make_columns: MakeColumns) -> None:
    columns = make_columns(["body"])
    columns.add(make_record())
    with pytest.raises(ProtocolError, match=r"orders, queue 2, offset 8: .*ZLIB"):
        columns.add(make_record(offset=8, sys_flag=1))
    assert columns.batch().num_rows == 1  # no half row
    without = make_columns(["offset"])
    assert without.add(make_record(sys_flag=1)) == 1


def test_long_topics_and_odd_ones(make_columns: MakeColumns) -> None:
    columns = make_columns(["topic"])
    for topic in (b"t" * 127, b"t" * 200, "größe".encode(), b"\xff"):
        columns.add(make_record(topic=topic))
    assert columns.batch()["topic"].to_pylist() == ["t" * 127, "t" * 200, "größe", "\ufffd"]


def test_a_range_of_offsets(make_columns: MakeColumns) -> None:
    data = b"".join([make_record(offset=offset) for offset in range(10)])
    columns = make_columns(["offset"])
    assert columns.add(data, 3, 6) == 3
    assert columns.add(data, end_offset=2) == 2
    assert columns.add(data, 8) == 2
    assert columns.batch()["offset"].to_pylist() == [3, 4, 5, 0, 1, 8, 9]


def test_topics_and_times(make_columns: MakeColumns) -> None:
    columns = make_columns(["topic", "store_time"], topics=frozenset({b"a", b"b"}), from_ms=10, until_ms=20)
    for topic in (b"a", b"b", b"c", b"a"):
        for store_ms in (9, 10, 19, 20):
            columns.add(make_record(topic=topic, store_ms=store_ms))
    batch = columns.batch()
    assert batch["topic"].to_pylist() == ["a", "a", "b", "b", "a", "a"]


def test_a_segment_is_walked_to_its_blank(make_columns: MakeColumns) -> None:
    first = make_record(position=1000)
    data = first + make_record(position=1000 + len(first)) + encode_blank(100) + bytes(92)
    columns = make_columns(["offset"])
    assert columns.walk.add(data, 0, len(data), 1000) == (2, 2 * len(first), Stop.NEXT_SEGMENT)
    assert columns.walk.add(data, 0, len(first), 1000) == (1, len(first), Stop.REACHED)
    assert columns.walk.add(data, 0, len(data), 999) == (0, 0, Stop.NO_RECORD)
    assert columns.walk.add(data, len(data) - 4, len(data), 1000) == (0, len(data) - 4, Stop.NO_RECORD)


def test_damage_in_a_segment_stops_the_walk(make_columns: MakeColumns) -> None:
    sound = make_record(body=b"x" * 50)
    for at in (88, len(sound) - 1):  # in the body, at the end of the properties
        broken = bytearray(sound)
        broken[at] = 0
        columns = make_columns(["offset"], check_crc=True)
        assert columns.walk.add(broken, 0, -1, 0) == (0, 0, Stop.NO_RECORD)
    assert make_columns(["offset"], check_crc=True).walk.add(sound, 0, -1, 0) == (1, len(sound), Stop.REACHED)
    assert make_columns(["offset"]).walk.add(bytes(400), 0, -1, 0) == (0, 0, Stop.NO_RECORD)


def test_cut_anywhere(make_columns: MakeColumns) -> None:
    whole = make_record() + make_record(topic=b"t" * 200, born_host=pack_host("::1", 1))
    first = len(make_record())
    for size in range(len(whole)):
        columns = make_columns()
        if size in (0, first):
            assert columns.add(whole[:size]) == (1 if size else 0)
            continue
        with pytest.raises(CorruptRecord):
            columns.add(whole[:size])
        assert columns.rows == (1 if size > first else 0)


def test_buffers_of_every_kind(make_columns: MakeColumns) -> None:
    columns = make_columns(["offset"])
    for data in (make_record(), bytearray(make_record()), memoryview(make_record())):
        assert columns.add(data) == 1


def test_a_batch_outlives_what_made_it(make_columns: MakeColumns) -> None:
    columns = make_columns()
    columns.add(make_record())
    batch = columns.batch()
    before = batch.to_pylist()
    for _ in range(50):
        columns.add(make_record(body=b"other", properties=b"A\x01b"))
    del columns
    assert batch.to_pylist() == before


@pytest.mark.parametrize(
    ("columns", "says"),
    [(["ofset"], "did you mean offset"), (["xyzzy"], "there are topic"), (["body", "body"], "twice")],
)
def test_wrong_columns(columns: list[str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        schema(columns)


def test_types_are_the_ones_that_spark_expects() -> None:
    assert schema(["store_time"]).field(0).type == pyarrow.timestamp("us", "UTC")
    assert all(field.nullable for field in schema(COLUMNS))


def test_the_extension_is_built_where_a_compiler_is() -> None:
    if os.environ.get("COMETMQ_PURE") or not shutil.which("cc"):
        pytest.skip("asked to be pure, or no compiler")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        pytest.skip("Python's headers are not here")
    assert compiled.twins is not None, "build it with: make setup"
