"""The handle by which a producer calls a waiting message back; the reply to its send carries it.

    base64url( "v1" ' ' topic ' ' broker name ' ' deliver time in ms ' ' unique key )

Mirrors: RecallMessageHandle.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from cometmq.errors import ProtocolError, RequestRefused
from cometmq.model import properties
from cometmq.model.names import RETRY_PREFIX

_VERSION: Final = "v1"
_ALPHABET: Final = re.compile(rb"[A-Za-z0-9_-]*={0,2}\Z")
_LONG: Final = re.compile(r"[+-]?[0-9]{1,18}\Z")


class RecallHandle(NamedTuple):
    """What a handle says."""

    topic: str
    broker_name: str
    deliver_ms: int  # -1: no number
    uniq_key: str

    def encode(self) -> str:
        words = (_VERSION, self.topic, self.broker_name, str(self.deliver_ms), self.uniq_key)
        return base64.urlsafe_b64encode(" ".join(words).encode()).decode()

    @classmethod
    def decode(cls, text: str | None) -> RecallHandle:
        """Read a handle, which comes from outside."""
        data = (text or "").encode()
        if not data or not _ALPHABET.match(data):
            raise _invalid()
        bare = data.rstrip(b"=")
        if len(bare) % 4 == 1 or (len(bare) != len(data) and len(data) % 4):
            raise _invalid()
        try:
            raw = base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4)).decode("utf-8", "replace")
        except binascii.Error:
            raise _invalid() from None
        words = raw.rstrip(" ").split(" ")
        if raw and not raw.rstrip(" "):
            raise ProtocolError("the recall handle holds nothing but spaces")
        if words[0] != _VERSION or len(words) < 5:
            raise _invalid()
        return cls(words[1], words[2], int(words[3]) if _LONG.match(words[3]) else -1, words[4])


def _invalid() -> RequestRefused:
    return RequestRefused("ILLEGAL_OPERATION", "recall handle is invalid")


def handle_of(found: Mapping[str, str], broker_name: str) -> str | None:
    """The handle of a message that was sent to wait, by its properties; None if it does not wait, or is a retry."""
    slot_ms, topic = found.get(properties.TIMER_OUT_MS), found.get(properties.REAL_TOPIC)
    if slot_ms is None or topic is None or topic.startswith(RETRY_PREFIX) or not _LONG.match(slot_ms):
        return None
    # One more than the slot's time: put through the stage again, it comes to the same slot.
    return RecallHandle(topic, broker_name, int(slot_ms) + 1, found.get(properties.UNIQ_KEY, "")).encode()
