"""The receipt handle: what a consumer shows to acknowledge a popped message.

    start offset · pop time · invisible time · revive queue · retry mark · broker name · queue id · queue offset

as text, divided by blanks. A pop's answer carries what its handles have in common in its header, and per queue

    startOffsetInfo   mark · queue id · start offset           divided by semicolons
    msgOffsetInfo     mark · queue id · offset,offset,…

of which the client puts them together; messages of retry topics bring theirs along, as the property POP_CK.
Invariant: what cannot be read raises `ProtocolError` and nothing else.

Mirrors: ExtraInfoUtil, MQClientAPIImpl.processPopResponse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from cometmq.errors import ProtocolError
from cometmq.model.pop_topics import mark_of, marked_topic
from cometmq.model.properties import NAME_SEPARATOR, POP_CK
from cometmq.wire.record import Record
from cometmq.wire.requests.pop import PopMessageReply

_FIELDS: Final = 8
_POP_CK: Final = POP_CK + NAME_SEPARATOR


class Handle(NamedTuple):
    """One message of one pop."""

    start_offset: int
    pop_time_ms: int
    invisible_time_ms: int
    revive_queue: int
    mark: str
    broker_name: str
    queue_id: int
    queue_offset: int

    def render(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Self:
        fields = text.split(" ")
        if len(fields) != _FIELDS:
            raise ProtocolError(f"the receipt handle {text!r:.200} has {len(fields)} fields, not {_FIELDS}")
        try:
            return cls(*map(int, fields[:4]), fields[4], fields[5], *map(int, fields[6:]))  # type: ignore[arg-type, call-arg]
        except ValueError:
            raise ProtocolError(f"the receipt handle {text!r:.200} has a word where a number is expected") from None

    def topic(self, topic: str, group: str) -> str:
        """The topic that the message was really popped from: `topic`, or a retry topic of it."""
        real = marked_topic(topic, group, self.mark)
        if real is None:
            raise ProtocolError(f"the receipt handle is of no known kind: {self.mark!r:.20}")
        return real


def handles_of(reply: PopMessageReply, records: Sequence[Record], broker_name: str) -> list[Handle]:
    """The handle of each message of a pop's answer."""
    starts = _starts(reply.start_offset_info)
    offsets = _offsets(reply.msg_offset_info)
    seen: dict[tuple[str, int], int] = {}
    found = []
    for record in records:
        text = record.properties_text
        if _POP_CK in text and (own := record.properties.get(POP_CK)):
            found.append(Handle.parse(own))
            continue
        queue = mark_of(record.topic), record.queue_id
        index = seen.get(queue, 0)
        seen[queue] = index + 1
        listed = offsets.get(queue, ())
        # The n-th message of a queue has the n-th offset of its list: the record's own may be that of another queue.
        offset = listed[index] if index < len(listed) else record.queue_offset
        found.append(
            Handle(
                starts.get(queue, offset),
                reply.pop_time,
                reply.invisible_time,
                reply.revive_qid,
                queue[0],
                broker_name,
                record.queue_id,
                offset,
            )
        )
    return found


def order_counts(text: str | None) -> dict[tuple[str, str], int]:
    """How often messages popped in order came before, by mark and queue id, or mark and `qo<queue id>%<offset>`."""
    return {(mark, key): _whole(count) for mark, key, count in _parts(text)}


def _starts(text: str | None) -> dict[tuple[str, int], int]:
    return {(mark, _whole(queue)): _whole(start) for mark, queue, start in _parts(text)}


def _offsets(text: str | None) -> dict[tuple[str, int], list[int]]:
    return {(mark, _whole(queue)): [_whole(one) for one in listed.split(",")] for mark, queue, listed in _parts(text)}


def _parts(text: str | None) -> list[list[str]]:
    parts = [part.split(" ") for part in (text or "").split(";") if part]
    if any(len(part) != 3 for part in parts):
        raise ProtocolError(f"a pop's answer says {text!r:.200}, which has not three words for each queue")
    return parts


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ProtocolError(f"a pop's answer says {text!r:.40} where a number is expected") from None
