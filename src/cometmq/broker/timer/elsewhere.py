"""What of the timer's work another broker has done: a slave that acted while this master was gone.

It says by its checkpoint until which time it delivered, and how much of the timer topic it knew: a record that stands
before both was delivered by it, unless it is one that stays (a checkpoint of pop, which only its own master can use).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cometmq.broker.timer.stage import deliver_time_ms
from cometmq.model import properties
from cometmq.wire.record import Record

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"


def stays(real_topic: str) -> bool:
    """Whether a timed message waits for its own master."""
    return real_topic.startswith(REVIVE_PREFIX)


def due_time_ms(record: Record, out_ms: int) -> int:
    """When a record that waits is due: not before its slot, to the millisecond where it names one."""
    return max(deliver_time_ms(record.properties, record.store_time_ms) or 0, out_ms)


def was_due_before(until_ms: int, out_ms: int, due_ms: int) -> bool:
    """Whether who has delivered until then has delivered it. A master says where a slot begins, and a message that was
    late is due just there; a slave says when it looked, which may be amid a slot."""
    return out_ms < until_ms and due_ms <= until_ms


class Elsewhere(NamedTuple):
    """How far the other broker was."""

    until_ms: int = 0
    queue_offset: int = 0

    def has_delivered(self, record: Record) -> bool:
        if record.queue_offset >= self.queue_offset:
            return False
        found = record.properties
        out_ms = found.get(properties.TIMER_OUT_MS, "")
        if not out_ms.isdecimal() or stays(found.get(properties.REAL_TOPIC, "")):
            return False
        return was_due_before(self.until_ms, int(out_ms), due_time_ms(record, int(out_ms)))
