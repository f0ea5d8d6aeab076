"""A command: one request or reply, and its two header forms.

    JSON      {"code":…,"language":"JAVA","version":…,"opaque":…,"flag":…,"remark":…,"extFields":{…},…}
    ROCKETMQ  code 2 · language 1 · version 2 · opaque 4 · flag 4 · remark 4+n · ext 4+n
              ext: repeated  key 2+n · value 4+n

A reply takes the form of its request. The 16-bit code of the binary form cannot hold codes such as
POP_MESSAGE's: a command with a larger code is written as JSON whatever was asked for. In the binary form an
empty text is no text: Java reads null there, so the field counts as missing.
Invariant: garbage raises `ProtocolError` and nothing else.

Mirrors: RemotingCommand, RocketMQSerializable.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Annotated, Any, Final, Literal

import msgspec
import orjson

from cometmq.errors import ProtocolError
from cometmq.wire import fastjson
from cometmq.wire.codes import FLAG_ONE_WAY, FLAG_RESPONSE, VERSION, LanguageCode, SerializeType

_LENGTHS: Final = Struct(">iI")
_MARKED_SIZE: Final = Struct(">I")
_BINARY_HEAD: Final = Struct(">hBhiii")  # up to the remark's length
_BINARY_CODE_MAX: Final = 0x7FFF
_KEY_SIZE: Final = Struct(">h")
_SIZE: Final = Struct(">i")
_HEADER_SIZE_MAX: Final = 0xFFFFFF

_LANGUAGES: Final[dict[Any, int]] = {spelling: int(x) for x in LanguageCode for spelling in (x.name, int(x))}
_LANGUAGE_NAMES: Final = {int(language): language.name for language in LanguageCode}
_OTHER: Final = int(LanguageCode.OTHER)
_PYTHON: Final = int(LanguageCode.PYTHON)
_JSON: Final = int(SerializeType.JSON)
_ROCKETMQ: Final = int(SerializeType.ROCKETMQ)

_SPELLINGS: Final = (str, int)

Body = bytes | memoryview


class Command(msgspec.Struct, eq=False, gc=False):  # gc=False: it holds plain values, never a cycle
    """One request or reply. `ext` holds the header's fields as text, as both forms carry them."""

    code: int
    opaque: int = 0
    flag: int = 0
    ext: dict[str, str] = {}  # each gets its own
    body: Body = b""
    remark: str | None = None
    language: int = _PYTHON
    version: int = VERSION
    serialize: int = _JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & FLAG_ONE_WAY)

    def __repr__(self) -> str:
        kind = "reply" if self.is_response else "request"
        return f"<{kind} code={self.code} opaque={self.opaque} ext={self.ext} body={len(self.body)}B {self.remark!r}>"


def decode_command(frame: bytes | memoryview) -> Command:
    """Read a frame (without its leading length)."""
    if len(frame) < 4:
        raise ProtocolError(f"a frame of {len(frame)} bytes has no header length")
    (marked,) = _MARKED_SIZE.unpack_from(frame)
    end = 4 + (marked & _HEADER_SIZE_MAX)
    if end > len(frame):
        raise ProtocolError(f"a header of {end - 4} bytes in a frame of {len(frame)}")
    form = marked >> 24
    if form == _JSON:
        command = _decode_json(frame[4:end])
    elif form == _ROCKETMQ:
        command = _decode_binary(bytes(frame[4:end]))
    else:
        raise ProtocolError(f"header form {form}: 0 (JSON) and 1 (ROCKETMQ) are known")
    command.body = frame[end:]
    return command


_Int32 = Annotated[int, msgspec.Meta(ge=-0x8000_0000, le=0x7FFF_FFFF)]


class _SoundHeader(Command, eq=False, gc=False, kw_only=True, forbid_unknown_fields=True):
    """A JSON header as every sound peer writes it: complete, of the right types, and with nothing else in it."""

    code: _Int32
    opaque: _Int32
    flag: _Int32
    version: _Int32
    language: str  # type: ignore[assignment]  # the name; its number takes its place
    ext: dict[str, str] = msgspec.field(name="extFields")
    remark: str | None = None
    serialize_type_current_rpc: str = msgspec.field(name="serializeTypeCurrentRPC", default="")
    body: None = None  # type: ignore[assignment]  # stands behind the header; set when that is read
    serialize: Literal[0] = 0


_read_sound_header: Final = msgspec.json.Decoder(_SoundHeader).decode


def _decode_json(header: Body) -> Command:
    try:
        command: Command = _read_sound_header(header)
        command.language = _LANGUAGES[command.language]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return _decode_odd_json(header)
    return command


def _decode_odd_json(header: Body) -> Command:
    """Read any header that fastjson would, as it would: this is the rule, `_SoundHeader` its short cut."""
    fields = fastjson.loads(header)
    if not isinstance(fields, dict):
        raise ProtocolError("the header is not a JSON object")
    code, opaque, flag, version = (fastjson.int_of(fields.get(name)) for name in ("code", "opaque", "flag", "version"))
    ext: Any = {} if (given := fields.get("extFields")) is None else given
    if not isinstance(ext, dict):
        raise ProtocolError("extFields is not a JSON object")
    remark, language = fields.get("remark"), fields.get("language", "JAVA")
    return Command(
        code,
        opaque=opaque,
        flag=flag,
        ext={name: fastjson.text_of(value) for name, value in ext.items() if value is not None},
        remark=None if remark is None else fastjson.text_of(remark),
        language=_LANGUAGES.get(language, _OTHER) if isinstance(language, _SPELLINGS) else _OTHER,
        version=version,
    )


def _decode_binary(data: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_size = _BINARY_HEAD.unpack_from(data)
        ext_at = _BINARY_HEAD.size + remark_size
        if remark_size < 0 or ext_at > len(data):
            raise ProtocolError(f"a remark of {remark_size} bytes in a header of {len(data)}")
        remark = data[_BINARY_HEAD.size : ext_at].decode("utf-8", "replace")
        ext = _decode_ext(data, ext_at)
    except error as broken:
        raise ProtocolError(f"the binary header does not parse: {broken}") from None
    return Command(
        code,
        opaque=opaque,
        flag=flag,
        ext=ext,
        remark=remark or None,
        language=language if language in _LANGUAGE_NAMES else _OTHER,
        version=version,
        serialize=_ROCKETMQ,
    )


def _decode_ext(data: bytes, at: int) -> dict[str, str]:
    (ext_size,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    end = at + ext_size
    if end > len(data):
        raise ProtocolError(f"ext fields of {ext_size} bytes in a header of {len(data)}")
    ext: dict[str, str] = {}  # each gets its own
    while at < end:
        (key_size,) = _KEY_SIZE.unpack_from(data, at)
        key_end = at + 2 + key_size
        if key_size < 0 or key_end > end:
            raise ProtocolError(f"a key of {key_size} bytes where {end - at - 2} are left")
        (size,) = _SIZE.unpack_from(data, key_end)
        value_at = key_end + 4
        value_end = value_at + size
        if size < 0 or value_end > end:
            raise ProtocolError(f"a value of {size} bytes where {end - value_at} are left")
        if size:
            ext[data[at + 2 : key_end].decode("utf-8", "replace")] = data[value_at:value_end].decode("utf-8", "replace")
        at = value_end
    return ext


def encode_command(command: Command) -> bytes:
    """A whole frame, leading length included."""
    return encode_head(command, len(command.body)) + bytes(command.body)


def encode_head(command: Command, body_size: int) -> bytes:
    """A frame up to its body, for bodies that are written beside it without a copy."""
    if command.serialize == _ROCKETMQ and -_BINARY_CODE_MAX <= command.code <= _BINARY_CODE_MAX:
        header, mark = _encode_binary(command), _ROCKETMQ << 24
    else:
        header, mark = _encode_json(command), 0
    size = len(header)
    return _LENGTHS.pack(4 + size + body_size, mark | size) + header


def _encode_json(command: Command) -> bytes:
    fields = {
        "code": command.code,
        "extFields": command.ext,
        "flag": command.flag,
        "language": _LANGUAGE_NAMES.get(command.language, "OTHER"),
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is not None:
        fields["remark"] = command.remark
    return orjson.dumps(fields)


def _encode_binary(command: Command) -> bytes:
    remark = command.remark.encode() if command.remark else b""
    parts = [
        _BINARY_HEAD.pack(command.code, command.language, command.version, command.opaque, command.flag, len(remark)),
        remark,
        b"",
    ]
    ext_size = 0
    for key, value in command.ext.items():
        key_data, value_data = key.encode(), value.encode()
        parts += (_KEY_SIZE.pack(len(key_data)), key_data, _SIZE.pack(len(value_data)), value_data)
        ext_size += 6 + len(key_data) + len(value_data)
    parts[2] = _SIZE.pack(ext_size)
    return b"".join(parts)
