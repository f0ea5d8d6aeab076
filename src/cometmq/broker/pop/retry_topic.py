"""Names around pop: its retry topics (`model/pop_topics.py`, which clients know too) and the revive log.

Mirrors: PopAckConstants.
"""

from __future__ import annotations

from typing import Final

from cometmq.model.names import SYSTEM_GROUP_PREFIX, SYSTEM_PREFIX
from cometmq.model.pop_topics import (
    NORMAL,
    ORDER_REVIVE_QUEUE,
    RETRY_V1,
    RETRY_V2,
    mark_of,
    marked_topic,
    normal_topic,
    pop_retry_topic,
)

__all__ = [
    "NORMAL",
    "ORDER_REVIVE_QUEUE",
    "RETRY_V1",
    "RETRY_V2",
    "REVIVE_GROUP",
    "mark_of",
    "marked_topic",
    "normal_topic",
    "pop_retry_topic",
    "revive_topic",
]

REVIVE_GROUP: Final = SYSTEM_GROUP_PREFIX + "REVIVE_GROUP"


def revive_topic(cluster: str) -> str:
    return f"{SYSTEM_PREFIX}REVIVE_LOG_{cluster}"
