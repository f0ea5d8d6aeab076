"""A command: one request or reply, and its two header forms.

    JSON      {"code":…,"language":"JAVA","version":…,"opaque":…,"flag":…,"remark":…,"extFields":{…},…}
    ROCKETMQ  code 2 · language 1 · version 2 · opaque 4 · flag 4 · remark 4+n · ext 4+n
              ext: repeated  key 2+n · value 4+n

A reply takes the form of its request. The 16-bit code of the binary form cannot hold codes such as
POP_MESSAGE's: a command with a larger code is written as JSON whatever was asked for.
Invariant: garbage raises `ProtocolError` and nothing else.

Mirrors: RemotingCommand, RocketMQSerializable.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Any, Final

import orjson

from cometmq.errors import ProtocolError
from cometmq.wire import fastjson
from cometmq.wire.codes import FLAG_ONE_WAY, FLAG_RESPONSE, VERSION, LanguageCode, SerializeType

_LENGTHS: Final = Struct(">iI")
_BINARY_HEAD: Final = Struct(">hBhii")
_BINARY_CODE_MAX: Final = 0x7FFF
_KEY_SIZE: Final = Struct(">h")
_SIZE: Final = Struct(">i")
_HEADER_SIZE_MAX: Final = 0xFFFFFF

_LANGUAGES: Final = {language.name: int(language) for language in LanguageCode}
_LANGUAGE_NAMES: Final = {int(language): language.name for language in LanguageCode}
_PYTHON: Final = int(LanguageCode.PYTHON)
_JSON: Final = int(SerializeType.JSON)
_ROCKETMQ: Final = int(SerializeType.ROCKETMQ)

Body = bytes | memoryview


class Command:
    """One request or reply. `ext` holds the header's fields as text, as both forms carry them."""

    __slots__ = ("body", "code", "ext", "flag", "language", "opaque", "remark", "serialize", "version")

    def __init__(
        self,
        code: int,
        *,
        opaque: int = 0,
        flag: int = 0,
        ext: dict[str, str] | None = None,
        body: Body = b"",
        remark: str | None = None,
        language: int = _PYTHON,
        version: int = VERSION,
        serialize: int = _JSON,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.ext = ext if ext is not None else {}
        self.body = body
        self.remark = remark
        self.language = language
        self.version = version
        self.serialize = serialize

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
    view = memoryview(frame)
    if len(view) < 4:
        raise ProtocolError(f"a frame of {len(view)} bytes has no header length")
    marked = int.from_bytes(view[:4], "big")
    end = 4 + (marked & _HEADER_SIZE_MAX)
    if end > len(view):
        raise ProtocolError(f"a header of {end - 4} bytes in a frame of {len(view)}")
    form = marked >> 24
    if form == _JSON:
        return _decode_json(view[4:end], view[end:])
    if form == _ROCKETMQ:
        return _decode_binary(view[4:end], view[end:])
    raise ProtocolError(f"header form {form}: 0 (JSON) and 1 (ROCKETMQ) are known")


def _decode_json(header: memoryview, body: memoryview) -> Command:
    try:
        fields: Any = orjson.loads(header)
    except orjson.JSONDecodeError:
        fields = fastjson.loads(header)
    if not isinstance(fields, dict):
        raise ProtocolError("the header is not a JSON object")
    get = fields.get
    ext = get("extFields")
    if ext is None:
        ext = {}
    elif not isinstance(ext, dict):
        raise ProtocolError("extFields is not a JSON object")
    language = get("language", "JAVA")
    command = Command(
        get("code", 0),
        opaque=get("opaque", 0),
        flag=get("flag", 0),
        ext=ext,
        body=body,
        remark=None if (remark := get("remark")) is None else fastjson.text_of(remark),
        language=_LANGUAGES.get(language, 0) if isinstance(language, str) else 0,
        version=get("version", 0),
    )
    numbers: tuple[Any, ...] = (command.code, command.opaque, command.flag, command.version)
    if not all(type(number) is int for number in numbers):
        raise ProtocolError("code, opaque, flag and version must be whole numbers")
    for value in ext.values():
        if type(value) is not str:
            command.ext = {k: fastjson.text_of(v) for k, v in ext.items() if v is not None}
            break
    return command


def _decode_binary(header: memoryview, body: memoryview) -> Command:
    try:
        code, language, version, opaque, flag = _BINARY_HEAD.unpack_from(header)
        at = _BINARY_HEAD.size
        remark, at = _text(header, at, _SIZE)
        (ext_size,) = _SIZE.unpack_from(header, at)
        at += _SIZE.size
        if ext_size < 0 or ext_size > len(header) - at:
            raise ProtocolError(f"ext fields of {ext_size} bytes in a header of {len(header)}")
        end = at + ext_size
        ext: dict[str, str] = {}
        while at < end:
            key, at = _text(header, at, _KEY_SIZE)
            ext[key], at = _text(header, at, _SIZE)
    except (error, UnicodeDecodeError) as broken:
        raise ProtocolError(f"the binary header does not parse: {broken}") from None
    return Command(
        code,
        opaque=opaque,
        flag=flag,
        ext=ext,
        body=body,
        remark=remark or None,
        language=language,
        version=version,
        serialize=_ROCKETMQ,
    )


def _text(header: memoryview, at: int, size_form: Struct) -> tuple[str, int]:
    (size,) = size_form.unpack_from(header, at)
    at += size_form.size
    if size < 0 or size > len(header) - at:
        raise ProtocolError(f"a text of {size} bytes where {len(header) - at} are left")
    return str(header[at : at + size], "utf-8"), at + size


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
        "language": _LANGUAGE_NAMES[command.language],
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
        _BINARY_HEAD.pack(command.code, command.language, command.version, command.opaque, command.flag),
        _SIZE.pack(len(remark)),
        remark,
        b"",
    ]
    ext_size = 0
    for key, value in command.ext.items():
        key_data, value_data = key.encode(), value.encode()
        parts += (_KEY_SIZE.pack(len(key_data)), key_data, _SIZE.pack(len(value_data)), value_data)
        ext_size += 6 + len(key_data) + len(value_data)
    parts[3] = _SIZE.pack(ext_size)
    return b"".join(parts)
