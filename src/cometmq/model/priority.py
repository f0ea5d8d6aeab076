"""Priority messages: the queue is the priority, so that who reads queues in that order takes the urgent ones first.

Mirrors: SendMessageProcessor (msgPriority), TopicMessageType.parseFromMessageProperty.
"""

from __future__ import annotations

import re
from typing import Final

from cometmq.model import properties

_INT: Final = re.compile(r"[+-]?\d{1,10}")
# A message has one type; these come before priority.
_OTHER_TYPES: Final = (properties.DELAY, *properties.TIMER_WISHES, properties.SHARDING_KEY)


def queue_of_priority(found: dict[str, str], queue_id: int, write_queues: int) -> int:
    """The queue of a message with a priority; where another type comes first, the priority is dropped."""
    text = found.get(properties.PRIORITY, "")
    priority = int(text) if _INT.fullmatch(text) else -1
    if not 0 <= priority < 1 << 31:
        return queue_id
    is_transaction = found.get(properties.TRANSACTION_PREPARED, "").lower() == "true"
    if is_transaction or not found.keys().isdisjoint(_OTHER_TYPES):
        del found[properties.PRIORITY]
        return queue_id
    return min(priority, write_queues - 1)
