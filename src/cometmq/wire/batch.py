"""The body of a batch: the messages of one topic and queue, one sub-record after the other.

     0  total size   4      12  flag         4
     4  magic        4      16  body         4 + n
     8  body CRC     4      ..  properties   2 + n

Clients write 0 as magic and CRC, and the original reads neither of these nor the total size: the two inner
lengths alone say where a sub-record ends, so here too. Lengths that leave the body are a refused request, not a
broken connection: the frame around them was sound.

Mirrors: MessageDecoder.encodeMessages, MessageExtEncoder.encode(MessageExtBatch).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from cometmq.errors import MessageRefused, RequestRefused
from cometmq.model.properties import PROPERTIES_SIZE_MAX
from cometmq.wire.command import Body

_HEAD: Final = Struct(">iiiii")
_READ_HEAD: Final = Struct(">12xii")  # of the same bytes, what is looked at
_PROPERTIES_SIZE: Final = Struct(">h")
SUB_RECORD_SIZE_MIN: Final = _HEAD.size + _PROPERTIES_SIZE.size  # 22: no body, no properties


# One message of a batch: flag, body, properties; everything else is that of the batch. A plain tuple, for speed.
SubRecord = tuple[int, Body, bytes]


def split_batch(body: Body) -> list[SubRecord]:
    """The messages of a batch. Message bodies are views into `body`."""
    (found,) = split_parts(body, len(body))
    return found


def split_parts(body: Body, count_max: int) -> Iterator[list[SubRecord]]:
    """The same in parts of so many messages, for who has others to serve in between."""
    view = memoryview(body)
    end = len(view)
    found: list[SubRecord] = []
    at = before = 0
    while at < end:
        if len(found) == count_max:
            yield found
            before += count_max
            found = []
        if end - at < SUB_RECORD_SIZE_MIN:
            raise _lie(before + len(found), f"needs {SUB_RECORD_SIZE_MIN} bytes, but only {end - at} are left")
        flag, body_size = _READ_HEAD.unpack_from(view, at)
        body_at = at + _HEAD.size
        body_end = body_at + body_size
        properties_at = body_end + _PROPERTIES_SIZE.size
        if body_size < 0 or properties_at > end:
            raise _lie(before + len(found), f"claims a body of {body_size} bytes where {end - body_at} are left")
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(view, body_end)
        at = properties_at + properties_size
        if properties_size < 0 or at > end:
            raise _lie(
                before + len(found),
                f"claims properties of {properties_size} bytes where {end - properties_at} are left",
            )
        found.append((flag, view[body_at:body_end], bytes(view[properties_at:at])))
    if not found:
        raise RequestRefused("SYSTEM_ERROR", "the batch is empty: its body must hold at least one message")
    yield found


def _lie(index: int, what: str) -> RequestRefused:
    # SYSTEM_ERROR, because the original fails with an exception here and answers that.
    return RequestRefused("SYSTEM_ERROR", f"message {index} of the batch {what}; nothing of the batch was stored")


def encode_batch(messages: Iterable[tuple[int, Body, bytes]]) -> bytes:
    """A batch body of (flag, body, properties) triples."""
    parts: list[Body] = []
    for flag, body, properties_data in messages:
        if len(properties_data) > PROPERTIES_SIZE_MAX:
            raise MessageRefused(f"the properties take {len(properties_data)} bytes; {PROPERTIES_SIZE_MAX} fit")
        total = SUB_RECORD_SIZE_MIN + len(body) + len(properties_data)
        parts += (
            _HEAD.pack(total, 0, 0, flag, len(body)),
            body,
            _PROPERTIES_SIZE.pack(len(properties_data)),
            properties_data,
        )
    return b"".join(parts)
