"""Every codec of the wire floor: round trip, cut at every byte, garbage raises only the two declared errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import CorruptRecord, ProtocolError, RequestRefused
from cometmq.model import properties
from cometmq.model.java_hash import string_hash, unsigned_hash
from cometmq.wire import fastjson
from cometmq.wire.batch import encode_batch, split_batch, split_parts
from cometmq.wire.codes import LanguageCode, SerializeType
from cometmq.wire.command import Command, decode_command, encode_command
from cometmq.wire.message_id import offset_id, parse_offset_id
from cometmq.wire.record import decode_record, decode_records, encode_record, v6_flags
from cometmq.wire.requests.send import SendMessage, SendMessageV2

int16 = st.integers(-0x8000, 0x7FFF)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]))
body = st.binary(max_size=64)
hosts = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))


@st.composite
def commands(draw: st.DrawFn) -> Command:
    binary = draw(st.booleans())
    # An empty text is no text in the binary form, so only the JSON form can carry one.
    values = text.filter(bool) if binary else text
    return Command(
        draw(st.integers(-0x7FFF, 0x7FFF) if binary else int32),
        opaque=draw(int32),
        flag=draw(int32),
        ext=draw(st.dictionaries(text, values, max_size=5)),
        body=draw(body),
        remark=draw(st.none() | values),
        language=draw(st.sampled_from(list(LanguageCode))),
        version=draw(int16),
        serialize=SerializeType.ROCKETMQ if binary else SerializeType.JSON,
    )


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    born, store = draw(hosts), draw(hosts)
    return {
        "topic": draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=300)).encode(),
        "queue_id": draw(int32),
        "flag": draw(int32),
        "queue_offset": draw(int64),
        "physical_offset": draw(int64),
        "sys_flag": (draw(int32) & ~0x30) | v6_flags(born, store),
        "born_time_ms": draw(int64),
        "born_host": born,
        "store_time_ms": draw(int64),
        "store_host": store,
        "reconsume_times": draw(int32),
        "prepared_offset": draw(int64),
        "body": draw(body),
        "properties_data": draw(text).encode(),
    }


sub_records = st.tuples(int32, body, st.binary(max_size=32))


def mutated(data: bytes, at: int, what: bytes) -> bytes:
    at %= len(data) + 1
    return data[:at] + what + data[at + len(what) :]


def facts(command: Command) -> list[Any]:
    return [bytes(command.body) if n == "body" else getattr(command, n) for n in Command.__struct_fields__]


# --- round trips


@given(commands())
def test_command_returns(command: Command) -> None:
    assert facts(decode_command(encode_command(command)[4:])) == facts(command)


@given(records())
def test_record_returns(fields: dict[str, Any]) -> None:
    data = encode_record(**fields)
    record = decode_record(b"junk" + data + b"junk", 4, check_crc=True)
    assert record.size == len(data)
    again = {
        name: getattr(record, name) for name in fields if name not in ("topic", "properties_data")
    } | {"topic": record.topic.encode(), "properties_data": record.properties_text.encode()}  # fmt: skip
    assert again == fields


@given(st.lists(records(), max_size=4))
def test_records_return(many: list[dict[str, Any]]) -> None:
    data = b"".join(encode_record(**fields) for fields in many)
    assert [record.queue_offset for record in decode_records(data)] == [fields["queue_offset"] for fields in many]


@given(st.lists(sub_records, min_size=1, max_size=5))
def test_batch_returns(messages: list[tuple[int, bytes, bytes]]) -> None:
    assert [(flag, bytes(b), p) for flag, b, p in split_batch(encode_batch(messages))] == messages


@given(st.lists(sub_records, min_size=1, max_size=5), st.integers(1, 6))
def test_batch_returns_in_parts(messages: list[tuple[int, bytes, bytes]], count_max: int) -> None:
    parts = list(split_parts(encode_batch(messages), count_max))
    assert [(flag, bytes(b), p) for part in parts for flag, b, p in part] == messages
    assert all(len(part) == count_max for part in parts[:-1]) and 0 < len(parts[-1]) <= count_max


@given(hosts, st.integers(0, 2**63 - 1))
def test_offset_id_returns(host: bytes, offset: int) -> None:
    assert parse_offset_id(offset_id(host, offset)) == (host, offset)
    assert parse_offset_id(offset_id(host, offset).lower()) == (host, offset)


piece = st.text(st.characters(exclude_characters="\x01\x02"), min_size=1)


@given(st.dictionaries(piece, piece))
def test_properties_return(pairs: dict[str, str]) -> None:
    assert properties.parse(properties.render(pairs)) == pairs
    assert properties.parse(properties.render(pairs)[:-1]) == pairs


json_values = st.recursive(
    st.none() | st.booleans() | int64 | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text | int64.map(str), inner, max_size=3),
    max_leaves=12,
)


@given(json_values)
def test_json_returns_in_both_forms(value: Any) -> None:
    assert fastjson.loads(fastjson.dumps(value)) == value
    assert fastjson.loads(fastjson.dumps(value, strict=False)) == value


tricky = st.text(st.sampled_from('"\\,{}:[]0123-\n a'), max_size=12)


@given(st.dictionaries(tricky, tricky | st.dictionaries(tricky, tricky, max_size=2), max_size=3))
def test_json_of_tricky_strings_returns(value: Any) -> None:
    assert fastjson.loads(fastjson.dumps(value, strict=False)) == value


@given(
    st.builds(SendMessage, text, text, text, int32, int32, int32, int64, int32, st.none() | text, int32, st.booleans())
)
def test_header_returns(header: SendMessage) -> None:
    assert SendMessage.read(header.write()) == header
    short = SendMessageV2(**vars(header))
    assert SendMessageV2.read(short.write()) == short


@given(text, text)
def test_hash_follows_its_definition(first: str, second: str) -> None:
    total = 0
    data = (first + second).encode("utf-16-be")
    for at in range(0, len(data), 2):
        total = (total * 31 + int.from_bytes(data[at : at + 2], "big")) & 0xFFFFFFFF
    assert unsigned_hash(first + second) == total
    assert unsigned_hash(second, unsigned_hash(first)) == total
    assert string_hash(first + second) % 2**32 == total


# --- garbage

READERS: list[tuple[Callable[[bytes], Any], type[Exception]]] = [
    (decode_command, ProtocolError),
    (fastjson.loads, ProtocolError),
    (lambda data: parse_offset_id(data.decode("latin-1")), ProtocolError),
    (split_batch, RequestRefused),
    (lambda data: list(decode_records(data)), CorruptRecord),
]


@pytest.mark.parametrize(("read", "error"), READERS)
@given(data=st.binary(max_size=200))
def test_garbage_raises_only_the_declared_error(
    read: Callable[[bytes], Any], error: type[Exception], data: bytes
) -> None:
    with suppress(error):
        read(data)


@given(commands(), st.integers(0), st.binary(min_size=1, max_size=4))
def test_changed_command(command: Command, at: int, what: bytes) -> None:
    with suppress(ProtocolError):
        read = decode_command(mutated(encode_command(command)[4:], at, what))
        encode_command(read)
        SendMessageV2.read({**dict.fromkeys("abcdefgh", "1"), **read.ext})


@given(records(), st.integers(0), st.binary(min_size=1, max_size=4))
def test_changed_record(fields: dict[str, Any], at: int, what: bytes) -> None:
    with suppress(CorruptRecord):
        decode_record(mutated(encode_record(**fields), at, what), check_crc=True)


@given(st.lists(sub_records, min_size=1, max_size=3), st.integers(0), st.binary(min_size=1, max_size=4))
def test_changed_batch(messages: list[tuple[int, bytes, bytes]], at: int, what: bytes) -> None:
    with suppress(RequestRefused):
        split_batch(mutated(encode_batch(messages), at, what))


# --- cut short


@given(commands(), st.data())
def test_cut_command(command: Command, data: st.DataObject) -> None:
    header = encode_command(Command(command.code, ext=command.ext, serialize=command.serialize))[4:]
    with pytest.raises(ProtocolError):
        decode_command(header[: data.draw(st.integers(0, len(header) - 1))])


@given(records())
def test_cut_record(fields: dict[str, Any]) -> None:
    data = encode_record(**fields)
    for size in range(len(data)):
        with pytest.raises(CorruptRecord):
            decode_record(data[:size])


@given(st.lists(sub_records, min_size=1, max_size=3))
def test_cut_batch(messages: list[tuple[int, bytes, bytes]]) -> None:
    data = encode_batch(messages)
    ends, at = {0}, 0
    for _, message, text_ in messages:
        at += 22 + len(message) + len(text_)
        ends.add(at)
    for size in range(1, len(data)):
        if size not in ends:
            with pytest.raises(RequestRefused):
                split_batch(data[:size])
