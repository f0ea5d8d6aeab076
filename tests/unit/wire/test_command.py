"""Commands: hostile lengths and texts, and the fallback of the binary form."""

from __future__ import annotations

import time
from struct import pack

import orjson
import pytest

from cometmq.errors import ProtocolError
from cometmq.wire.codes import RequestCode, SerializeType
from cometmq.wire.command import Command, decode_command, encode_command, encode_head


def frame(header: bytes, form: int = 0, size: int | None = None) -> bytes:
    return pack(">I", form << 24 | (len(header) if size is None else size)) + header


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0"])
def test_no_header_length(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="no header length"):
        decode_command(data)


@pytest.mark.parametrize("size", [1, 3, 0xFFFFFF])
@pytest.mark.parametrize("form", [0, 1])
def test_header_longer_than_its_frame(size: int, form: int) -> None:
    with pytest.raises(ProtocolError, match=f"header of {size} bytes"):
        decode_command(frame(b"", form, size))


@pytest.mark.parametrize("form", [2, 0x7F, 0xFF])
def test_unknown_form(form: int) -> None:
    with pytest.raises(ProtocolError, match=f"header form {form}"):
        decode_command(frame(b"{}", form))


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"extFields":', b"[{1:"])
def test_deep_nesting(opening: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_command(frame(opening * 100_000))


@pytest.mark.parametrize(
    "text",
    [b'"' + rb"\"" * 400_000, b'{"' * 400_000, b"{" + b" " * 800_000, b"{" + b"1" * 800_000, b'"\\' * 400_000],
    ids=["escapes", "quotes", "spaces", "digits", "backslashes"],
)
def test_reading_hostile_text_takes_linear_time(text: bytes) -> None:
    begin = time.process_time()
    with pytest.raises(ProtocolError):
        decode_command(frame(text))
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("field", ["code", "opaque", "flag", "version"])
@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**64, 1e300, "ten", [], {}])
def test_number_that_is_none(field: str, value: object) -> None:
    text = orjson.dumps({"code": 10, field: 7}).replace(b"7", str(value).replace("'", '"').encode())
    if isinstance(value, str):
        text = orjson.dumps({"code": 10, field: value})
    with pytest.raises(ProtocolError):
        decode_command(frame(text))


def test_missing_fields_take_java_s_defaults() -> None:
    command = decode_command(frame(b"{}"))
    assert (command.code, command.flag, command.version, command.ext, command.remark) == (0, 0, 0, {}, None)


def test_body_is_what_follows_the_header() -> None:
    command = decode_command(frame(b'{"code":1}') + b"body")
    assert bytes(command.body) == b"body"


@pytest.mark.parametrize("code", [RequestCode.POP_MESSAGE, 32_768, -32_768])
def test_code_over_16_bits_falls_back_to_json(code: int) -> None:
    data = encode_command(Command(code, ext={"topic": "T"}, serialize=SerializeType.ROCKETMQ))
    assert data[4] == SerializeType.JSON
    assert decode_command(data[4:]).code == code


@pytest.mark.parametrize("code", [0, 32_767, -32_767])
def test_code_within_16_bits_stays_binary(code: int) -> None:
    data = encode_command(Command(code, serialize=SerializeType.ROCKETMQ))
    assert data[4] == SerializeType.ROCKETMQ
    assert decode_command(data[4:]).code == code


def test_head_counts_the_body_that_follows() -> None:
    command = Command(0, body=b"12345")
    assert encode_head(command, 5) + b"12345" == encode_command(command)


def test_flags() -> None:
    assert Command(0, flag=1).is_response
    assert Command(0, flag=2).is_one_way
    assert not Command(0).is_response
    assert "request code=0" in repr(Command(0))
