"""A success reply in JSON of which only a few fields change: the gaps are filled, nothing is built anew.

The replies to sends and pulls leave this way. Values must need no escape in JSON; who fills the template sees to that.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from struct import Struct
from typing import Final

from cometmq.wire.codes import FLAG_RESPONSE, ResponseCode
from cometmq.wire.command import Command, encode_head

_LENGTHS: Final = Struct(">ii")
_OPAQUE: Final = 987_654_321  # stands where the opaque goes


class ReplyTemplate:
    """The frame of a reply with gaps for the opaque and for the fields in `varying`: numbers, or texts as bytes."""

    def __init__(
        self,
        fixed: Mapping[str, str],
        varying: Sequence[str],
        remark: str | None = None,
        *,
        texts: Container[str] = (),
    ) -> None:
        sample = Command(
            ResponseCode.SUCCESS,
            opaque=_OPAQUE,
            flag=FLAG_RESPONSE,
            ext={**dict.fromkeys(varying, "?"), **fixed},
            remark=remark,
        )
        text = encode_head(sample, 0)[_LENGTHS.size :].decode().replace("%", "%%")
        for name in varying:
            text = text.replace(f'"{name}":"?"', f'"{name}":"{"%b" if name in texts else "%d"}"', 1)
        self._header = text.replace(f'"opaque":{_OPAQUE}', '"opaque":%d', 1).encode()
        # What stands between the gaps, for who fills them himself: those of `varying` in their order, then the opaque.
        self.literals = tuple(piece.replace(b"%%", b"%") for piece in re.split(b"(?<!%)%[bd]", self._header))

    def fill(self, opaque: int, *values: int | bytes, body_size: int = 0) -> bytes:
        """The frame up to its body; `values` in the order of `varying`."""
        header = self._header % (*values, opaque)
        size = len(header)
        return _LENGTHS.pack(4 + size + body_size, size) + header
