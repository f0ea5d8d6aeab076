"""The header of a producer's sends to one queue, encoded once: per message only the gaps are filled.

    {"code":310,"extFields":{"a":group,"b":topic,…,"f":·,"g":·,"h":·,"i":·,…},"flag":·,…,"opaque":·,…}

Text that is not known to need no escape (the properties) goes through the JSON encoder, numbers and fixed text do not.
A signature covers the body and all fields: `SignedSends` encodes each header anew.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import orjson

from cometmq.wire.codes import FLAG_ONE_WAY
from cometmq.wire.command import Body, encode_head
from cometmq.wire.requests.send import SendMessageV2
from cometmq.wire.signing import Credentials

_LENGTHS: Final = Struct(">ii")
_pack: Final = _LENGTHS.pack
_dumps: Final = orjson.dumps
_GAP: Final = 987_654_321  # stands where a number goes


class SendTemplate:
    """Frames of one kind of send (`SendMessageV2`, a batch, a reply) to one queue."""

    __slots__ = ("_header", "_one_way")

    def __init__(self, kind: type[SendMessageV2], **fixed: str | int | bool | None) -> None:
        sample = kind(**fixed, sys_flag=_GAP, born_timestamp=_GAP, flag=_GAP, properties="?").command()  # type: ignore[arg-type]
        sample.opaque = _GAP
        self._header = _with_gaps(encode_head(sample, 0))
        sample.flag = FLAG_ONE_WAY
        self._one_way = _with_gaps(encode_head(sample, 0))

    def fill(self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: str, body: Body) -> bytes:
        """The frame up to its body."""
        header = self._header % (sys_flag, born_ms, flag, _dumps(properties), opaque)
        size = len(header)
        return _pack(4 + size + len(body), size) + header

    def fill_one_way(self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: str, body: Body) -> bytes:
        """The same for a send that is not answered."""
        header = self._one_way % (sys_flag, born_ms, flag, _dumps(properties), opaque)
        size = len(header)
        return _pack(4 + size + len(body), size) + header


class SignedSends:
    """The same frames, signed."""

    __slots__ = ("_credentials", "_fixed", "_kind")

    def __init__(self, credentials: Credentials, kind: type[SendMessageV2], **fixed: str | int | bool | None) -> None:
        self._credentials = credentials
        self._kind = kind
        self._fixed = fixed

    def fill(self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: str, body: Body) -> bytes:
        """The frame up to its body."""
        return self._frame(0, opaque, sys_flag, born_ms, flag, properties, body)

    def fill_one_way(self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: str, body: Body) -> bytes:
        """The same for a send that is not answered."""
        return self._frame(FLAG_ONE_WAY, opaque, sys_flag, born_ms, flag, properties, body)

    def _frame(
        self, how: int, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: str, body: Body
    ) -> bytes:
        command = self._kind(
            **self._fixed,  # type: ignore[arg-type]
            sys_flag=sys_flag,
            born_timestamp=born_ms,
            flag=flag,
            properties=properties,
        ).command(body)
        command.opaque, command.flag = opaque, how
        self._credentials.sign(command)
        return encode_head(command, len(body))


def _with_gaps(frame: bytes) -> bytes:
    text = frame[_LENGTHS.size :].decode().replace("%", "%%")
    for name in ("f", "g", "h"):
        text = text.replace(f'"{name}":"{_GAP}"', f'"{name}":"%d"', 1)
    # A quote inside a value is escaped, so these can only be the fields themselves.
    return text.replace('"i":"?"', '"i":%b', 1).replace(f'"opaque":{_GAP}', '"opaque":%d', 1).encode()
