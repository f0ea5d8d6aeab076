"""Which slots of the wheel hold anything, which of them are open, and what is recalled.

known slots      times only, in a heap: 2 days of them at most
open slots       about to be due, or due (`open_slots`)
recalls          those whose mark may be in another slot than what it recalls, or not on the wheel yet
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from cometmq.broker.timer.open_slots import OpenSlot
from cometmq.clock import Clock

OPEN_AHEAD: Final = 10  # ticks before its time at which a slot is opened, to be made ready
RECALLS_KEPT: Final = 60  # ticks


class Slots:
    """Pure state."""

    def __init__(self, clock: Clock, precision_ms: int, times_ms: Iterable[int], unfinished_ms: int) -> None:
        self._clock = clock
        self.precision_ms = precision_ms
        self.open: dict[int, OpenSlot] = {}
        self._heap = sorted(times_ms)
        self._known = set(self._heap)
        self._unfinished_ms = unfinished_ms
        self._recalled: dict[tuple[int, str], int] = {}  # (slot, key) → when to forget it

    def tick(self, time_ms: int) -> int:
        """The last whole tick that is not after `time_ms`."""
        return time_ms - time_ms % self.precision_ms

    def add(self, slot_ms: int) -> None:
        """Something is in this slot, which is not open."""
        if slot_ms not in self._known:
            self._known.add(slot_ms)
            heapq.heappush(self._heap, slot_ms)

    @property
    def next_closed_ms(self) -> int | None:
        """The earliest slot that is not open."""
        return self._heap[0] if self._heap else None

    def opened(self, slot: OpenSlot) -> None:
        """The earliest slot is open now."""
        self._known.discard(heapq.heappop(self._heap))
        self.open[slot.slot_ms] = slot

    def in_order(self) -> list[OpenSlot]:
        """The open slots, the oldest first."""
        return [self.open[slot_ms] for slot_ms in sorted(self.open)]

    def forget_done(self, write_time_ms: int) -> None:
        """Drop the oldest slots that are empty, and stay so; none before an older one: the progress is one time."""
        now_ms = self._clock.now_ms()
        for slot in self.in_order():
            if not slot.done(now_ms) or write_time_ms < slot.end_ms:
                return
            del self.open[slot.slot_ms]

    def next_ms(self) -> int | None:
        """When there is something to do next."""
        times = [slot.next_ms() for slot in self.open.values()]
        if self._heap:
            times.append(self._heap[0] - OPEN_AHEAD * self.precision_ms)
        return min(times, default=None)

    def unfinished_ms(self, now_ms: int) -> int:
        """Every slot before this time is delivered, also if the clock was set back since."""
        self._unfinished_ms = max(self._unfinished_ms, min([self.tick(now_ms), *self.open, *self._heap[:1]]))
        return self._unfinished_ms

    def is_late(self) -> bool:
        """Whether a slot holds something that was due a tick ago."""
        before_ms = self._clock.now_ms() - self.precision_ms
        if self._heap and self._heap[0] < before_ms - self.precision_ms:
            return True
        return any(slot.next_ms() < before_ms for slot in self.open.values())

    # Recalls

    def recall(self, key: str, slot_ms: int) -> None:
        """A mark of recall is stored for a slot; one that is about to be due cannot wait until it is read back."""
        now_ms = self._clock.now_ms()
        if slot_ms <= now_ms + 2 * self.precision_ms:
            self._recalled[slot_ms, key] = max(slot_ms, now_ms) + RECALLS_KEPT * self.precision_ms

    def is_recalled(self, slot: OpenSlot, slot_ms: int, key: str) -> bool:
        """Whether what is in `slot`, and belongs into `slot_ms`, is recalled."""
        return key in slot.recalled or (slot_ms, key) in self._recalled

    def forget_recalls(self) -> None:
        """Drop recalls that have come where they belong."""
        if self._recalled:
            now_ms = self._clock.now_ms()
            self._recalled = {name: until_ms for name, until_ms in self._recalled.items() if until_ms >= now_ms}
