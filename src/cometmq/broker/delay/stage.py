"""Into the schedule topic: a message that asks for a delay level waits in the queue of that level.

    DELAY = 3, orders/1   →   SCHEDULE_TOPIC_XXXX/2, with REAL_TOPIC = orders and REAL_QID = 1

A level beyond the last is the last; 0 and less mean no delay. What is prepared or rolled back in a transaction stays
where it is. A message with a level and a time waits by its level, so the time goes.

Mirrors: HookUtils.handleScheduleMessage, transformDelayLevelMessage.
"""

from __future__ import annotations

import re
from typing import Final

from cometmq.broker.inner_messages import InnerMessage
from cometmq.errors import RequestRefused
from cometmq.model import properties
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.model.sysflag import TRANSACTION_UNSEEN

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_INT_MAX: Final = (1 << 31) - 1


class DelayStage:
    """Sends messages with a delay level to wait."""

    def __init__(self, level_max: int) -> None:
        self._level_max = level_max

    def __call__(self, message: InnerMessage) -> None:
        found = message.properties
        text = found.get(properties.DELAY)
        if text is None or message.due or message.sys_flag & TRANSACTION_UNSEEN:
            return
        level = _level(text)
        if level <= 0 or self._level_max <= 0:
            return
        if level > self._level_max:
            level = self._level_max
            found[properties.DELAY] = str(level)
        for key in properties.TIMER_WISHES:
            found.pop(key, None)
        found[properties.REAL_TOPIC] = message.topic
        found[properties.REAL_QUEUE_ID] = str(message.queue_id)
        message.topic = SCHEDULE_TOPIC
        message.queue_id = level - 1


def _level(text: str) -> int:
    """Java's Integer.parseInt."""
    level = int(text) if _INTEGER.fullmatch(text) else None
    if level is None or not -_INT_MAX - 1 <= level <= _INT_MAX:
        raise RequestRefused("SYSTEM_ERROR", f"the property DELAY is {text!r}, which is no delay level: send a number")
    return level
