"""When requests that wait have waited long enough: one heap and one timer for any number of them.

Who is answered earlier stays in the heap until its time comes, or until `keep` clears it of such entries.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Final, Generic, TypeVar

TIMER_S_MAX: Final = 3_600.0
EARLY_S: Final = 0.001  # timers ring with the precision of a millisecond

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Tells `expired` of each item when its time has come."""

    def __init__(self, expired: Callable[[T], None]) -> None:
        self._expired = expired
        self._heap: list[tuple[float, int, T]] = []
        self._order = itertools.count()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0  # kept here: uvloop's handle of a time that has passed cannot say it

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, in_s: float, item: T) -> None:
        heapq.heappush(self._heap, (self._loop.time() + in_s, next(self._order), item))
        self._arm()

    def keep(self, wanted: Callable[[T], bool]) -> None:
        """Let go of all others."""
        self._heap = [entry for entry in self._heap if wanted(entry[2])]
        heapq.heapify(self._heap)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._heap and (self._timer is None or self._timer_at > self._heap[0][0]):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = min(self._heap[0][0], self._loop.time() + TIMER_S_MAX)
            self._timer = self._loop.call_at(self._timer_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        until = self._loop.time() + EARLY_S
        while self._heap and self._heap[0][0] <= until:
            self._expired(heapq.heappop(self._heap)[2])
        self._arm()
