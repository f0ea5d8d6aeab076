"""The receipt handle: what a consumer shows to acknowledge a popped message.

    start offset · pop time · invisible time · revive queue · retry mark · broker name · queue id · queue offset

as text, divided by blanks. Clients put it together from the reply's headers; only in messages of retry topics it is
written here, as the property POP_CK. Nothing signs it: whoever makes one up acknowledges what it names, as upstream.

Mirrors: ExtraInfoUtil.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from cometmq.broker.pop.retry_topic import ORDER_REVIVE_QUEUE, mark_of
from cometmq.errors import RequestRefused

_FIELDS_MIN: Final = 6
_WHOLE: Final = re.compile(r"[+-]?\d{1,19}\Z")


class Receipt(NamedTuple):
    """The part of a handle that names the pop."""

    start_offset: int
    pop_time_ms: int
    invisible_time_ms: int
    revive_queue: int
    broker_name: str

    @property
    def is_order(self) -> bool:
        return self.revive_queue == ORDER_REVIVE_QUEUE


def read_receipt(text: str | None) -> Receipt:
    """Read a handle, or as much of one as names the pop."""
    fields = (text or "").split(" ")
    if len(fields) < _FIELDS_MIN:
        raise _refused(f"it has {len(fields)} fields, at least {_FIELDS_MIN} are needed")
    if not all(map(_WHOLE.match, fields[:4])):
        raise _refused("its first four fields must be whole numbers")
    start_offset, pop_time_ms, invisible_time_ms, revive_queue = map(int, fields[:4])
    return Receipt(start_offset, pop_time_ms, invisible_time_ms, revive_queue, fields[5])


def _refused(why: str) -> RequestRefused:
    return RequestRefused("SYSTEM_ERROR", f"the receipt (extraInfo) cannot be read: {why}")


def render(
    start_offset: int,
    pop_time_ms: int,
    invisible_time_ms: int,
    revive_queue: int,
    topic: str,
    broker_name: str,
    queue_id: int,
    queue_offset: int,
) -> str:
    """A whole handle."""
    return (
        f"{start_offset} {pop_time_ms} {invisible_time_ms} {revive_queue} {mark_of(topic)} "
        f"{broker_name} {queue_id} {queue_offset}"
    )


def start_offset_info(topic: str, queue_id: int, start_offset: int) -> str:
    """One queue's part of the reply header that tells where its pop starts."""
    return f"{mark_of(topic)} {queue_id} {start_offset}"


def msg_offset_info(topic: str, queue_id: int, offsets: Sequence[int]) -> str:
    """One queue's part of the reply header that tells the offsets of its messages."""
    return f"{mark_of(topic)} {queue_id} {','.join(map(str, offsets))}"
