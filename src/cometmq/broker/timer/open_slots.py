"""Slots whose time has come or is about to: their messages in memory, by when they are due.

A slot T holds what is due in (T, T + precision], and is cut into strips of a twentieth of that. A strip is taken
when its end has come: nothing is early, and what is late is late by one strip. Within a strip the order is the log's.

    slot T   ┃strip 0┃strip 1┃ …      taken at T + width, T + 2·width, …

Memory: 32 bytes for each waiting message of the open slots, which are those of the next tick and the unfinished.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

STRIPS: Final = 20
STRIP_MS_MIN: Final = 10
FIELDS: Final = 4  # numbers kept for each message: position, offset, size and magic, write time


class Due(NamedTuple):
    """One message whose time has come."""

    pos: int  # of its unit in the timer log
    magic: int
    offset: int
    size: int
    write_time_ms: int


class OpenSlot:
    """One slot, opened."""

    __slots__ = ("began_at", "delivered_pos", "end_ms", "markers", "recalled", "slot_ms", "strips")

    def __init__(self, slot_ms: int, precision_ms: int) -> None:
        self.slot_ms = slot_ms
        self.end_ms = slot_ms + precision_ms
        width = max(precision_ms // STRIPS, STRIP_MS_MIN)
        self.strips = {end: array("q") for end in range(slot_ms + width, self.end_ms + 1, width)}
        self.recalled: set[str] = set()
        self.markers: list[int] = []  # positions of the marks of recall
        self.delivered_pos: int | None = None  # position of one that was delivered
        self.began_at: int | None = None  # CommitLog offset behind which its deliveries stand

    def add(self, due_ms: int, due: Due) -> None:
        """Put a message where it is due; 0, as Java writes it, is the end of the slot."""
        end = self.end_ms
        if due_ms:
            width = next(iter(self.strips)) - self.slot_ms
            past = min(max(due_ms - self.slot_ms, 1), end - self.slot_ms)
            end = self.slot_ms + -(-past // width) * width
        self.strips[end].extend((due.pos, due.offset, due.size << 4 | due.magic, due.write_time_ms))

    def take(self, now_ms: int) -> array[int]:
        """What is due now; it is no longer in the slot."""
        taken = array("q")
        for end, strip in self.strips.items():
            if end > now_ms:
                break
            if strip:
                taken.extend(strip)
                self.strips[end] = array("q")
        return taken

    def give_back(self, taken: array[int]) -> None:
        """Put back, to the front, what was taken and not delivered."""
        first = next(iter(self.strips))
        self.strips[first] = taken + self.strips[first]

    def next_ms(self) -> int:
        """When to look here again."""
        return next((end for end, strip in self.strips.items() if strip), self.end_ms)

    def done(self, now_ms: int) -> bool:
        """Everything is delivered, and nothing can come any more."""
        return now_ms >= self.end_ms and not any(self.strips.values())

    def waiting(self) -> list[int]:
        """Positions of the units that are still needed, in the log's order."""
        return sorted([*self.markers, *(pos for strip in self.strips.values() for pos in strip[::FIELDS])])


def each(taken: array[int]) -> Iterator[Due]:
    """The messages of what `take` gave."""
    for at in range(0, len(taken), FIELDS):
        pos, offset, size, write_time_ms = taken[at : at + FIELDS]
        yield Due(pos, size & 0xF, offset, size >> 4, write_time_ms)
