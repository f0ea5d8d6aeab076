"""The slot table of an index file in memory, and which of its pages the disk lacks.

Held as the machine's own integers, because one indexed read and write of a view costs a fraction of unpacking;
turned to big-endian on the way to the file and back. Anonymous memory: pages never touched are never resident.
The view starts with the ten integers' room of the header, so that a page here is a page of the file.
"""

from __future__ import annotations

import sys
from array import array
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct
from typing import Final

from cometmq.store.fs import FileSystem

SLOT: Final = Struct(">i")
HEADER_ROOM: Final = 10  # integers
PAGE_SLOTS: Final = 1024

_CHUNK_SLOTS: Final = 256 * PAGE_SLOTS


class IndexSlots:
    """`view[HEADER_ROOM + n]` is slot n; whoever writes one adds its page to `dirty`."""

    def __init__(self, slot_count: int) -> None:
        self._end = HEADER_ROOM + slot_count
        memory = mmap(-1, self._end * SLOT.size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        self.view = memoryview(memory).cast("i")
        self.dirty: set[int] = set()

    def get(self, slot: int) -> int:
        return self.view[HEADER_ROOM + slot]

    def set(self, slot: int, entry: int) -> None:
        self.view[HEADER_ROOM + slot] = entry
        self.dirty.add((HEADER_ROOM + slot) // PAGE_SLOTS)

    def read(self, fs: FileSystem, fd: int) -> None:
        """Take the slots from the file."""
        zeros = bytes(_CHUNK_SLOTS * SLOT.size)
        for start in range(HEADER_ROOM, self._end, _CHUNK_SLOTS):
            end = min(start + _CHUNK_SLOTS, self._end)
            data = fs.pread(fd, (end - start) * SLOT.size, start * SLOT.size)
            if data != zeros[: len(data)]:
                self.view[start : start + len(data) // SLOT.size] = _swapped(data)

    def replace(self, slots: array[int]) -> None:
        """Take other slots; pages that differ become dirty."""
        for page in range((self._end - 1) // PAGE_SLOTS + 1):
            start, end = self._page_range(page)
            new = slots[start - HEADER_ROOM : end - HEADER_ROOM]
            if self.view[start:end].tobytes() != new.tobytes():
                self.view[start:end] = new
                self.dirty.add(page)

    def differ(self, slots: array[int]) -> bool:
        """Whether these are others."""
        return self.view[HEADER_ROOM : self._end].tobytes() != slots.tobytes()

    def take_dirty(self) -> tuple[frozenset[int], list[tuple[int, bytes]]]:
        """The dirty pages, and where in the file which bytes must go, neighbours joined; none is dirty after."""
        pages = frozenset(self.dirty)
        ranges: list[list[int]] = []
        for page in sorted(pages):
            start, end = self._page_range(page)
            if ranges and ranges[-1][1] == start:
                ranges[-1][1] = end
            else:
                ranges.append([start, end])
        self.dirty.clear()
        return pages, [(a * SLOT.size, _swapped(self.view[a:b].tobytes()).tobytes()) for a, b in ranges]

    def largest(self) -> int:
        """The newest entry that any slot names."""
        starts = range(HEADER_ROOM, self._end, _CHUNK_SLOTS)
        return max((max(self.view[start : min(start + _CHUNK_SLOTS, self._end)]) for start in starts), default=0)

    def _page_range(self, page: int) -> tuple[int, int]:
        return max(page * PAGE_SLOTS, HEADER_ROOM), min((page + 1) * PAGE_SLOTS, self._end)


def _swapped(data: bytes) -> array[int]:
    values = array("i")
    values.frombytes(data)
    if sys.byteorder == "little":
        values.byteswap()
    return values
