"""Pops and notifications that found nothing and wait: woken one at a time, by an arrival or by their deadline.

A waiting request costs one small object and one heap entry. An arrival looks up its topic; for each group that waits
there it wakes one request that takes any queue and one that wants this queue, not all: who pops takes many messages
at once, and if some are left wakes the next. A woken request runs again and may wait again until its own deadline.
Bounds: `maxPopPollingSize` requests in all, about `popPollingSize` for one topic, group and queue.

Mirrors: PopLongPollingService.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Final

from cometmq.broker.deadlines import Deadlines
from cometmq.broker.pop.retry_topic import pop_retry_topic
from cometmq.clock import Clock
from cometmq.net.routes import Call

ANY_QUEUE: Final = -1
EARLY_MS: Final = 50  # a request is answered so long before its client gives up
SWEEP_PAUSE_S: Final = 1.0
FORGET_STEP: Final = 1_000

PollingKey = tuple[str, str, int]  # topic, group, queue id or ANY_QUEUE


class Polling(Enum):
    """What came of asking to wait."""

    PARKED = auto()
    FULL = auto()
    TIMEOUT = auto()


class Parked:
    """One waiting request."""

    __slots__ = ("call", "key", "request")

    def __init__(self, key: PollingKey, call: Call, request: Any) -> None:
        self.key = key
        self.call = call
        self.request = request


class PopLongPolling:
    """The waiting requests of one kind. `wake(parked)` runs one again."""

    def __init__(
        self,
        wake: Callable[[Parked], None],
        clock: Clock,
        total_max: int,
        key_max: int,
        *,
        newest_first: bool = False,
    ) -> None:
        self._wake = wake
        self._clock = clock
        self._total_max = total_max
        self._key_max = key_max
        self._newest_first = newest_first
        self._parked: dict[PollingKey, dict[int, Parked]] = {}
        self._groups: dict[str, dict[str, int]] = {}  # topic → group → keys that wait
        self._origins: dict[str, tuple[str, str]] = {}  # retry topic → topic and group that wait
        self._deadlines = Deadlines(self._expire)
        self._order = itertools.count()
        self._count = 0
        self._swept_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def __len__(self) -> int:
        return self._count

    def count(self, key: PollingKey) -> int:
        return len(self._parked.get(key, ()))

    # --- waiting

    def park(self, key: PollingKey, born_ms: int, poll_ms: int, call: Call, request: Any) -> Polling:
        """Let a request wait until `poll_ms` after it was born."""
        if poll_ms <= 0 or self._closed:
            return Polling.TIMEOUT
        if self._count >= self._total_max and not self._sweep():
            return Polling.FULL
        left_ms = born_ms + poll_ms - EARLY_MS - self._clock.now_ms()
        if left_ms < 0:
            return Polling.TIMEOUT
        waiting = self._parked.get(key)
        if waiting is None:
            waiting = self._parked[key] = {}
            self._watch(key)
        elif len(waiting) > self._key_max:
            return Polling.FULL
        call.command.body = b""  # a view, even an empty one, would hold a whole receive buffer
        number = next(self._order)
        waiting[number] = Parked(key, call, request)
        self._count += 1
        self._deadlines.add((left_ms + 1) / 1000, (number, key))
        if len(self._deadlines) > 2 * self._count + FORGET_STEP:
            self._deadlines.keep(self._is_parked)
        return Polling.PARKED

    def _watch(self, key: PollingKey) -> None:
        topic, group, _ = key
        groups = self._groups.setdefault(topic, {})
        groups[group] = groups.get(group, 0) + 1
        for v2 in (False, True):
            self._origins[pop_retry_topic(topic, group, v2=v2)] = topic, group

    def _unwatch(self, key: PollingKey) -> None:
        topic, group, _ = key
        del self._parked[key]
        groups = self._groups[topic]
        groups[group] -= 1
        if not groups[group]:
            del groups[group]
            if not groups:
                del self._groups[topic]
            for v2 in (False, True):
                self._origins.pop(pop_retry_topic(topic, group, v2=v2), None)

    # --- waking

    def arrived(self, arrivals: Iterable[tuple[str, int, int]]) -> None:
        """Queues (topic, queue id, new max offset) have new messages."""
        if not self._count:
            return
        for topic, queue_id, _ in arrivals:
            origin = self._origins.get(topic)
            if origin is not None:
                self.notify_all_queues(*origin, queue_id)
            groups = self._groups.get(topic)
            if groups is not None:
                for group in list(groups):
                    self.notify_all_queues(topic, group, queue_id)

    def notify_all_queues(self, topic: str, group: str, queue_id: int) -> None:
        """Wake one that takes any queue, and one that wants this queue."""
        self.notify((topic, group, ANY_QUEUE))
        self.notify((topic, group, queue_id))

    def notify_soon(self, key: PollingKey) -> None:
        """Wake one in the next turn of the loop: for who has just been woken and left something."""
        if key in self._parked:
            self._loop.call_soon(self.notify, key)

    def notify(self, key: PollingKey) -> bool:
        """Wake one that is still waited for; says whether there was one."""
        while (waiting := self._parked.get(key)) is not None:
            number = next(reversed(waiting)) if self._newest_first else next(iter(waiting))
            parked = self._take(key, number)
            if parked.call.channel.is_open and not parked.call.answered:
                self._run(parked)
                return True
        return False

    def _take(self, key: PollingKey, number: int) -> Parked:
        waiting = self._parked[key]
        parked = waiting.pop(number)
        self._count -= 1
        if not waiting:
            self._unwatch(key)
        return parked

    def _run(self, parked: Parked) -> None:
        try:
            self._wake(parked)
        except Exception as error:  # as in `Routes.answer`; and who is woken after it must have his turn
            parked.call.refuse(error)

    # --- deadlines

    def _expire(self, entry: tuple[int, PollingKey]) -> None:
        if self._is_parked(entry):
            number, key = entry
            parked = self._take(key, number)
            if parked.call.channel.is_open:
                self._run(parked)

    def _is_parked(self, entry: tuple[int, PollingKey]) -> bool:
        number, key = entry
        return number in self._parked.get(key, ())

    def _sweep(self) -> bool:
        """Let go of those whose connection is closed; says whether that made room."""
        now = self._loop.time()
        if now - self._swept_at < SWEEP_PAUSE_S:
            return False
        self._swept_at = now
        gone = [
            (key, number)
            for key, waiting in self._parked.items()
            for number, parked in waiting.items()
            if not parked.call.channel.is_open
        ]
        for key, number in gone:
            self._take(key, number)
        self._deadlines.keep(self._is_parked)
        return bool(gone)

    def close(self) -> None:
        """Answer everyone; nobody waits any more."""
        self._closed = True
        self._deadlines.close()
        for key, waiting in list(self._parked.items()):
            for number in list(waiting):
                self._run(self._take(key, number))
