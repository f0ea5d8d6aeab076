"""The header of a producer's sends to one queue, encoded once: per message only the gaps are filled.

    {"code":310,"extFields":{"a":group,"b":topic,…,"f":·,"g":·,"h":·,"i":·,…},"flag":·,…,"opaque":·,…}

Text that is not known to need no escape (the properties) goes through the JSON encoder, numbers and fixed text do not.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import orjson

from cometmq.wire.codes import FLAG_ONE_WAY
from cometmq.wire.command import encode_head
from cometmq.wire.requests.send import SendMessageV2

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

    def fill(self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: str, body_size: int) -> bytes:
        """The frame up to its body."""
        header = self._header % (sys_flag, born_ms, flag, _dumps(properties), opaque)
        size = len(header)
        return _pack(4 + size + body_size, size) + header

    def fill_one_way(
        self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: str, body_size: int
    ) -> bytes:
        """The same for a send that is not answered."""
        header = self._one_way % (sys_flag, born_ms, flag, _dumps(properties), opaque)
        size = len(header)
        return _pack(4 + size + body_size, size) + header


def _with_gaps(frame: bytes) -> bytes:
    text = frame[_LENGTHS.size :].decode().replace("%", "%%")
    for name in ("f", "g", "h"):
        text = text.replace(f'"{name}":"{_GAP}"', f'"{name}":"%d"', 1)
    # A quote inside a value is escaped, so these can only be the fields themselves.
    return text.replace('"i":"?"', '"i":%b', 1).replace(f'"opaque":{_GAP}', '"opaque":%d', 1).encode()
