"""Records: lengths that lie, versions, hosts, blanks, and properties that are not text."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.errors import CorruptRecord, MessageRefused
from cometmq.wire.record import (
    BLANK_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX,
    RECORD_SIZE_MIN,
    body_crc,
    decode_record,
    decode_records,
    encode_blank,
    encode_record,
    host_text,
    pack_host,
    v6_flags,
)

V4 = pack_host("127.0.0.1", 10911)
V6 = pack_host("2001:db8::1", 10911)


def record(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "topic": b"T",
        "queue_id": 1,
        "flag": 2,
        "queue_offset": 3,
        "physical_offset": 4,
        "sys_flag": 0,
        "born_time_ms": 5,
        "born_host": V4,
        "store_time_ms": 6,
        "store_host": V4,
        "body": b"body",
        "properties_data": b"A\x01b\x02",
    }
    return encode_record(**(fields | changes))


def altered(data: bytes, at: int, value: int, size: int = 4) -> bytes:
    return data[:at] + value.to_bytes(size, "big", signed=True) + data[at + size :]


def test_smallest() -> None:
    data = record(topic=b"", body=b"", properties_data=b"")
    assert len(data) == RECORD_SIZE_MIN
    assert decode_record(data).properties == {}


@pytest.mark.parametrize(("size", "magic"), [(127, MAGIC_V1), (128, MAGIC_V2), (32_767, MAGIC_V2)])
def test_version_follows_the_topic(size: int, magic: int) -> None:
    read = decode_record(record(topic=b"t" * size))
    assert (read.magic, read.topic) == (magic, "t" * size)


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
def test_hosts(born: bytes, store: bytes) -> None:
    read = decode_record(record(born_host=born, store_host=store, sys_flag=v6_flags(born, store)))
    assert (read.born_host, read.store_host, read.body) == (born, store, b"body")


def test_host_texts() -> None:
    assert host_text(V4) == "127.0.0.1:10911"
    assert host_text(V6) == "[2001:db8::1]:10911"
    assert pack_host("fe80::1%eth0", 1) == pack_host("fe80::1", 1)


def test_properties_over_the_limit() -> None:
    record(properties_data=b"x" * 32_767)
    with pytest.raises(MessageRefused, match="32768 bytes"):
        record(properties_data=b"x" * 32_768)


def test_properties_that_are_not_utf_8_are_served() -> None:
    read = decode_record(record(properties_data=b"A\x01\xff\x02B\x01ok\x02"))
    assert read.properties == {"A": "\ufffd", "B": "ok"}


@pytest.mark.parametrize("total", [-1, 0, 8, RECORD_SIZE_MIN - 1, 2**31 - 1])
def test_total_size_lies(total: int) -> None:
    with pytest.raises(CorruptRecord, match="total size"):
        decode_record(altered(record(), 0, total))


@pytest.mark.parametrize("change", [-1, 1])
def test_total_size_lies_a_little(change: int) -> None:
    data = record()
    with pytest.raises(CorruptRecord):
        decode_record(altered(data, 0, len(data) + change) + b"\0")


@pytest.mark.parametrize("size", [-1, 5, 2**31 - 1])
def test_body_length_lies(size: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_record(altered(record(), 84, size))


@pytest.mark.parametrize("size", [-1, 2, 127])
def test_topic_length_lies(size: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_record(altered(record(), 92, size, 1))


@pytest.mark.parametrize("size", [-1, 3, 5, 32_767])
def test_properties_length_lies(size: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_record(altered(record(), 94, size, 2))


def test_crc_is_checked_on_request() -> None:
    data = record().replace(b"body", b"b0dy")
    assert decode_record(data).body == b"b0dy"
    with pytest.raises(CorruptRecord, match="CRC"):
        decode_record(data, check_crc=True)


def test_crc_has_no_sign() -> None:
    assert all(0 <= body_crc(bytes([n])) < 2**31 for n in range(256))


def test_blank_is_not_a_message() -> None:
    blank = encode_blank(1000)
    assert (len(blank), PREFIX.unpack(blank)) == (BLANK_SIZE, (1000, MAGIC_BLANK))
    with pytest.raises(CorruptRecord, match="magic 0xcbd43194"):
        decode_record(blank)


def test_corruption_says_where() -> None:
    with pytest.raises(CorruptRecord) as corrupt:
        decode_record(b"\0" * 100, 8, path="00000000000000000000")
    assert (corrupt.value.path, corrupt.value.offset) == ("00000000000000000000", 8)
    with pytest.raises(CorruptRecord, match=f"at byte {len(record())}"):
        list(decode_records(record() + b"tail"))
