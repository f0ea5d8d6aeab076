"""Slots whose time has come or is about to: their messages in memory, by when they are due.

A slot T holds what is due in (T, T + precision], and is cut into strips of a twentieth of that. A strip is delivered
when its end has come: nothing is early, and what is late is late by one strip. Within a strip the order is the log's.

    slot T   ┃strip 0┃strip 1┃ …      delivered at T + width, T + 2·width, …
    strip    ready · waiting          ready: read from the log and made, so that only the storing is left

Memory: 32 to 64 bytes for each waiting message of the open slots, which are those of the next ticks and the unfinished;
what is ready has a maximum that `service` keeps.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from cometmq.broker.timer.delivery import Ready

STRIPS: Final = 20
STRIP_MS_MIN: Final = 10
FIELDS: Final = 4  # numbers kept for each message: position, offset, size and magic, write time


class Due(NamedTuple):
    """One message on the wheel."""

    pos: int  # of its unit in the timer log
    magic: int
    offset: int
    size: int
    write_time_ms: int


class Strip:
    """What is due at one moment."""

    __slots__ = ("_taken", "_waiting", "ready")

    def __init__(self) -> None:
        self.ready: deque[Ready] = deque()
        self._waiting = array("q")
        self._taken = 0  # numbers at the front that are done with: a million due at once must not be moved each time

    def __bool__(self) -> bool:
        return bool(self.ready or self._waiting)

    @property
    def is_waiting(self) -> bool:
        """Whether not all of it is ready."""
        return bool(self._waiting)

    def add(self, due: Due) -> None:
        self._waiting.extend((due.pos, due.offset, due.size << 4 | due.magic, due.write_time_ms))

    def turn_round(self) -> None:
        """Let the last one be the first; nothing is taken yet."""
        for at in range(FIELDS):
            self._waiting[at::FIELDS] = self._waiting[at::FIELDS][::-1]

    def positions(self) -> list[int]:
        """Of everything that is left."""
        return [*(one.pos for one in self.ready), *self._waiting[self._taken :: FIELDS]]

    def first(self, count: int) -> list[Due]:
        """The first of those that are not ready."""
        some = self._waiting[self._taken : self._taken + count * FIELDS]
        return [
            Due(pos, size & 0xF, offset, size >> 4, write_time_ms)
            for pos, offset, size, write_time_ms in zip(*(some[at::FIELDS] for at in range(FIELDS)), strict=True)
        ]

    def made(self, count: int, ready: list[Ready]) -> None:
        """The first `count` are ready: these are left of them."""
        self._taken += count * FIELDS
        if 2 * self._taken >= len(self._waiting):
            del self._waiting[: self._taken]
            self._taken = 0
        self.ready.extend(ready)


class OpenSlot:
    """One slot, opened."""

    __slots__ = ("began_at", "delivered_pos", "end_ms", "markers", "recalled", "slot_ms", "strips", "width_ms")

    def __init__(self, slot_ms: int, precision_ms: int) -> None:
        self.slot_ms = slot_ms
        self.end_ms = slot_ms + precision_ms
        self.width_ms = width_ms = max(precision_ms // STRIPS, STRIP_MS_MIN)
        self.strips = {end_ms: Strip() for end_ms in range(slot_ms + width_ms, self.end_ms + 1, width_ms)}
        self.recalled: set[str] = set()
        self.markers: list[int] = []  # positions of the marks of recall
        self.delivered_pos: int | None = None  # position of one that was delivered
        self.began_at: int | None = None  # CommitLog offset behind which its deliveries stand

    def add(self, due_ms: int, due: Due) -> None:
        """Put a message where it is due; 0, as Java writes it, is the end of the slot."""
        end_ms = self.end_ms
        if due_ms:
            past_ms = min(max(due_ms - self.slot_ms, 1), end_ms - self.slot_ms)
            end_ms = self.slot_ms + -(-past_ms // self.width_ms) * self.width_ms
        self.strips[end_ms].add(due)

    def turn_round(self) -> None:
        """What was added last comes first."""
        self.markers.reverse()
        for strip in self.strips.values():
            strip.turn_round()

    def due(self, now_ms: int) -> Iterator[Strip]:
        """The strips whose end has come and that hold anything."""
        for end_ms, strip in self.strips.items():
            if end_ms > now_ms:
                return
            if strip:
                yield strip

    def next_ms(self) -> int:
        """When to look here again."""
        return next((end_ms for end_ms, strip in self.strips.items() if strip), self.end_ms)

    def done(self, now_ms: int) -> bool:
        """Everything is delivered, and nothing can come any more."""
        return now_ms >= self.end_ms and not any(self.strips.values())

    def waiting(self) -> list[int]:
        """Positions of the units that are still needed, in the log's order."""
        positions = list(self.markers)
        for strip in self.strips.values():
            positions += strip.positions()
        return sorted(positions)
