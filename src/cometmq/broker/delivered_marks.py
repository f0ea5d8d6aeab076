"""Deliveries leave a mark, so that none is made twice after a kill.

The broker keeps some messages in a topic of its own until they are due, then stores them again where they belong.
How far it got is saved only now and then; after a kill it would deliver again what was delivered since. Therefore
every message that it delivers carries one property more, which names the record it was delivered from:

    __COMET_DELIVERED    source ':' queue id ':' queue offset ':' physical offset

    source               who delivered: "delay" (the delay levels) or "timer"
    queue id, offset     of the waiting record, in the topic of that service
    physical offset      where the waiting record stands in the log; nothing else ever stands there

After a start, a service asks `delivered_since(store, log offset, source)` for the marks behind its saved progress,
and does not deliver those records again (`Mark.physical_offset` says which, for certain). What it saves beside its
progress is therefore one offset of the log: everything that it delivered before that offset is in the progress.

A mark never lies: producers cannot send one (`strip_mark`, `without_marks`), and where a delivered
message is stored again (sent back, dead) its old mark still tells the truth. Java, and every client, takes the
property for one of the user's and ignores it.

Mirrors: nothing; Java delivers again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from cometmq.broker.inner_messages import InnerMessage
from cometmq.model import properties
from cometmq.model.properties import DELIVERED_MARK
from cometmq.store.engine import Store
from cometmq.wire.batch import SubRecord

DELAY_SOURCE: Final = "delay"
TIMER_SOURCE: Final = "timer"

_MARK_DATA: Final = DELIVERED_MARK.encode()


class Mark(NamedTuple):
    """Which waiting record a message was delivered from."""

    source: str
    queue_id: int
    queue_offset: int
    physical_offset: int

    @property
    def text(self) -> str:
        return f"{self.source}:{self.queue_id}:{self.queue_offset}:{self.physical_offset}"

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """Read a property's value; None if it is no mark."""
        source, *numbers = text.split(":")
        if len(numbers) != 3 or not all(number.isascii() and number.isdecimal() for number in numbers):
            return None
        return cls(source, *map(int, numbers))


def put_mark(found: dict[str, str], mark: Mark) -> None:
    """Let the properties of what is about to be delivered carry its mark; an older one is replaced."""
    found[DELIVERED_MARK] = mark.text


def strip_mark(message: InnerMessage) -> None:
    """A stage for what producers send: a message read elsewhere and sent here with all its properties."""
    message.properties.pop(DELIVERED_MARK, None)


def may_have_marks(messages: list[SubRecord]) -> bool:
    """Whether it is worth to read the properties of these."""
    return any(_MARK_DATA in data for _, _, data in messages)


def without_marks(messages: list[SubRecord]) -> list[SubRecord]:
    """`strip_mark` for the messages of a batch, which go no other way."""
    return [(flag, body, _without_mark(data)) for flag, body, data in messages]


def _without_mark(data: bytes) -> bytes:
    found = properties.parse(str(data, "utf-8", "replace"))
    return data if found.pop(DELIVERED_MARK, None) is None else properties.render(found).encode()


def delivered_since(store: Store, log_offset: int, source: str) -> Iterator[Mark]:
    """The marks that `source` left in the log from `log_offset` on."""
    for at, text in store.scan_properties(log_offset, DELIVERED_MARK):
        mark = Mark.parse(properties.parse(text).get(DELIVERED_MARK, ""))
        if mark is not None and mark.source == source and mark.physical_offset < at:
            yield mark
