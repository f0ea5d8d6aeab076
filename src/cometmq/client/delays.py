"""When a message is to be delivered: a level, a duration or a time, as the properties that ask for it.

Mirrors: Message.setDelayTimeLevel, setDelayTimeMs, setDeliverTimeMs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from cometmq.errors import InvalidArgument
from cometmq.model import properties

LEVEL_MAX: Final = 127  # brokers have 18 unless they are configured otherwise, and take the last for a higher one


def timing_text(delay: timedelta | int | None, at: datetime | None) -> str:
    """The property in the form of the wire; empty if the message is for now."""
    if delay is None and at is None:
        return ""
    if delay is not None and at is not None:
        raise InvalidArgument("give delay or at, not both")
    if at is not None:
        if not isinstance(at, datetime):
            raise InvalidArgument(f"at is a datetime, not {type(at).__name__}")
        if at.tzinfo is None:
            raise InvalidArgument(f"at is {at}, without a time zone; add one, as in datetime.now(UTC)")
        return f"{properties.TIMER_DELIVER_MS}\x01{int(at.timestamp() * 1000)}\x02"
    if isinstance(delay, timedelta):
        delay_ms = delay // timedelta(milliseconds=1)
        if delay_ms <= 0:
            raise InvalidArgument(f"a delay of {delay} is none; leave it out to send at once")
        return f"{properties.TIMER_DELAY_MS}\x01{delay_ms}\x02"
    if not isinstance(delay, int) or isinstance(delay, bool) or not 1 <= delay <= LEVEL_MAX:
        raise InvalidArgument(f"delay is a timedelta, or a level from 1 on, not {delay!r}")
    return f"{properties.DELAY}\x01{delay}\x02"
