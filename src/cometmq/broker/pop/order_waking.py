"""Who waits for a queue that is held in order is woken when it may be free: one timer for each queue that is held.

Bounded by the queues that order info knows.

Mirrors: QueueLevelConsumerOrderInfoLockManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cometmq.clock import Clock

WAIT_S_MAX = 3_600.0  # looked at again then, if it is held longer

HeldQueue = tuple[str, str, int]  # topic, group, queue id


class OrderWaking:
    """Calls `wake` for a queue once it is due."""

    def __init__(self, wake: Callable[[str, str, int], None], clock: Clock) -> None:
        self._wake = wake
        self._clock = clock
        self._timers: dict[HeldQueue, asyncio.TimerHandle] = {}
        self._loop = asyncio.get_running_loop()

    def when_free(self, topic: str, group: str, queue_id: int, free_at_ms: int) -> None:
        """The queue may be free at this time, whatever was said before."""
        key = topic, group, queue_id
        old = self._timers.pop(key, None)
        if old is not None:
            old.cancel()
        wait_s = min(max(free_at_ms - self._clock.now_ms(), 0) / 1000, WAIT_S_MAX)
        self._timers[key] = self._loop.call_later(wait_s, self._due, key)

    def _due(self, key: HeldQueue) -> None:
        self._timers.pop(key, None)
        self._wake(*key)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
