"""The timer wheel: for every second of the next days, where in the timer log its messages are chained.

    timerwheel     2 · 7 · 86,400 slots of 32 bytes, sparse, big-endian

     0  time         8   in units of the precision; another time than asked for means: empty
     8  first pos    8   timer log position of the first unit put here
    16  last pos     8   ... of the last, from which each names the one before
    24  number       4   messages less marks of recall
    28  magic        4   unused

Slot of a time: time / precision modulo the number of slots. Changes collect until `write`, one `pwrite` for each slot
that changed; reads see them at once.

Mirrors: TimerWheel, Slot.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from cometmq.errors import StoreError
from cometmq.store.fs import FileSystem, write_all

SLOT: Final = Struct(">qqqii")
SLOT_SIZE: Final = SLOT.size
HALF_SLOTS: Final = 7 * 86_400
SLOTS: Final = 2 * HALF_SLOTS
FILE_SIZE: Final = SLOTS * SLOT_SIZE

_BLOCK: Final = 4096 * SLOT_SIZE
_EMPTY_BLOCK: Final = bytes(_BLOCK)
_INT_MAX: Final = 0x7FFFFFFF


class Slot(NamedTuple):
    """What the wheel knows of one tick of time."""

    time_ms: int
    first_pos: int
    last_pos: int
    number: int


class TimerWheel:
    """The open file; it is made when the first slot is written."""

    def __init__(self, fs: FileSystem, path: str, precision_ms: int) -> None:
        self._fs = fs
        self._path = path
        self.precision_ms = precision_ms
        self._fd = -1
        self._view: memoryview | None = None
        self._changed: dict[int, bytes] = {}

    def load(self) -> None:
        """Open the file if there is one."""
        if not self._fs.exists(self._path):
            return
        size = self._fs.size(self._path)
        if size not in (0, FILE_SIZE):
            raise StoreError(f"{self._path} has {size} bytes, not the {FILE_SIZE} of a timer wheel: restore it")
        self._open()

    def _open(self) -> int:
        if self._fd < 0:
            self._fd = self._fs.open(self._path, create=True)
            self._fs.truncate(self._fd, FILE_SIZE)
            self._view = self._fs.map_read(self._path)
        return self._fd

    def slot(self, time_ms: int) -> Slot | None:
        """The slot of a time, if anything was put there."""
        tick = time_ms // self.precision_ms
        at = tick % SLOTS * SLOT_SIZE
        changed = self._changed.get(at)
        if changed is not None:
            found = SLOT.unpack(changed)
        elif self._view is not None:
            found = SLOT.unpack_from(self._view, at)
        else:
            return None
        if found[0] != tick or not tick:
            return None
        return Slot(tick * self.precision_ms, found[1], found[2], found[3])

    def held_by_later(self, time_ms: int) -> bool:
        """Whether the slot of this time serves a later one now."""
        tick = time_ms // self.precision_ms
        at = tick % SLOTS * SLOT_SIZE
        data = self._changed.get(at)
        if data is None:
            if self._view is None:
                return False
            data = bytes(self._view[at : at + SLOT_SIZE])
        return bool(SLOT.unpack(data)[0] > tick)

    def put(self, time_ms: int, first_pos: int, last_pos: int, number: int) -> None:
        """Set the slot of a time."""
        tick = time_ms // self.precision_ms
        number = max(-_INT_MAX, min(number, _INT_MAX))
        self._changed[tick % SLOTS * SLOT_SIZE] = SLOT.pack(tick, first_pos, last_pos, number, 0)

    def clear(self, time_ms: int) -> None:
        """Make the slot of a time empty."""
        self._changed[time_ms // self.precision_ms % SLOTS * SLOT_SIZE] = bytes(SLOT_SIZE)

    def write(self) -> None:
        """Hand the changes to the system."""
        if self._changed:
            fd = self._open()
            for at, data in self._changed.items():
                write_all(self._fs, fd, data, at)
            self._changed.clear()

    def sync(self) -> None:
        """To the disk. Any thread."""
        if self._fd >= 0:
            self._fs.sync(self._fd)

    def times(self, from_ms: int) -> list[int]:
        """The times from `from_ms` on that have anything, ascending."""
        if self._fd < 0:
            return []
        from_tick = from_ms // self.precision_ms
        found = []
        for at in range(0, FILE_SIZE, _BLOCK):
            block = self._fs.pread(self._fd, _BLOCK, at)
            if block != _EMPTY_BLOCK[: len(block)]:
                found += [
                    tick * self.precision_ms for tick, *_ in SLOT.iter_unpack(block) if tick and tick >= from_tick
                ]
        return sorted(found)

    def close(self) -> None:
        """Let go of the file; what was not written is lost."""
        self._changed.clear()
        self._view = None
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._fs.close(fd)
