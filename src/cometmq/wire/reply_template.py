"""A success reply in JSON of which only a few fields change: the gaps are filled, nothing is built anew.

The replies to sends leave this way. Values must need no escape in JSON; who fills the template sees to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from cometmq.wire.codes import FLAG_RESPONSE, ResponseCode
from cometmq.wire.command import Command, encode_head

_LENGTHS: Final = Struct(">ii")
_OPAQUE_MARK: Final = 987_654_321


class ReplyTemplate:
    """The frame of a reply with gaps for the opaque and for the fields in `varying`."""

    def __init__(self, fixed: Mapping[str, str], varying: Sequence[str]) -> None:
        marks = {name: f"gap<{name}>" for name in varying}
        sample = Command(ResponseCode.SUCCESS, opaque=_OPAQUE_MARK, flag=FLAG_RESPONSE, ext={**marks, **fixed})
        text = encode_head(sample, 0)[_LENGTHS.size :].decode().replace("%", "%%")
        for mark in marks.values():
            text = text.replace(mark, "%s")
        self._text = text.replace(str(_OPAQUE_MARK), "%d")

    def fill(self, opaque: int, *values: object) -> bytes:
        """The whole frame; `values` in the order of `varying`."""
        header = (self._text % (*values, opaque)).encode()
        size = len(header)
        return _LENGTHS.pack(4 + size, size) + header
