"""One queue of a topic, as clients and brokers name it to each other; queues sort by topic, broker and number.

Mirrors: MessageQueue.
"""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """A queue; a client may leave the names out where they do not matter."""

    topic: str | None
    broker_name: str | None
    queue_id: int
