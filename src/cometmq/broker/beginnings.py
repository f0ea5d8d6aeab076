"""Where a group begins that has committed nothing.

While the first message of a queue is still there and in memory the queue is young, and everybody begins with it,
whatever they asked for: a group that starts together with its topic must not miss messages.

Mirrors: DefaultMessageStore.checkInMemByConsumeOffset.
"""

from __future__ import annotations

from cometmq.store.engine import Store


class Beginnings:
    """Looks at the first message of a queue."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def is_young(self, topic: str, queue_id: int) -> bool:
        if self._store.min_offset(topic, queue_id) > 0:
            return False
        first = self._store.read(topic, queue_id, 0, 1)
        return bool(first.ranges) and not first.cold

    def first_offset(self, topic: str, queue_id: int) -> int:
        """Where to begin without any wish: at 0 if the queue is young, else behind everything."""
        return 0 if self.is_young(topic, queue_id) else self._store.max_offset(topic, queue_id)
