"""The timer log: one unit for each message that waits for its time, chained by the slot of the wheel it is in.

    timerlog/<20-digit position>     `mappedFileSizeTimerLog` bytes each, sparse

     0  size          4   52
     4  previous pos  8   of the unit before this one in the same slot; -1: this is the first
    12  magic         4   1, plus 2: to be rolled, plus 4: a mark of recall
    16  write time    8   when it was put on the wheel, in whole ticks
    24  delay         4   slot time less write time
    28  offset        8   where the message stands in the CommitLog
    36  size          4   ... and its size
    40  topic hash    4   Java's hash of the real topic
    44  due           8   when it is due, to the millisecond. Java writes 0 and never reads it: end of the slot

A file ends with a blank (rest of the file 4, 0 8, blank magic 4) where the next unit and a blank would not fit.
Appends collect until `write`.

Mirrors: TimerLog.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from cometmq.errors import StoreError
from cometmq.store.fs import FileSystem, write_all
from cometmq.store.segment import load_starts, segment_path

UNIT: Final = Struct(">iqiqiqiiq")
UNIT_SIZE: Final = UNIT.size
ROLL: Final = 2
DELETE: Final = 4
NO_POS: Final = -1

_BLANK: Final = Struct(">iqi")
_BLANK_MAGIC: Final = ((0xBBCCDDEE ^ (1880681586 + 8)) ^ 0x80000000) - 0x80000000
_MAGIC: Final = Struct(">i")
_BLOCK: Final = UNIT_SIZE * 1260  # just under 64 KiB


class TimerUnit(NamedTuple):
    """One unit, without its own size."""

    previous_pos: int
    magic: int
    write_time_ms: int
    delay_ms: int
    offset: int
    size: int
    topic_hash: int
    due_ms: int

    @property
    def slot_ms(self) -> int:
        return self.write_time_ms + self.delay_ms


class TimerLog:
    """The files; `end` is the position of the next unit."""

    def __init__(self, fs: FileSystem, folder: str, file_size: int) -> None:
        if file_size < UNIT_SIZE + _BLANK.size:
            raise StoreError(f"mappedFileSizeTimerLog is {file_size}: make it {UNIT_SIZE + _BLANK.size} or more")
        self._fs = fs
        self._folder = folder
        self._file_size = file_size
        self._units_end = (file_size - _BLANK.size) // UNIT_SIZE * UNIT_SIZE  # within a file
        self._fds: dict[int, int] = {}
        self._unsynced: set[int] = set()
        self._new_names = False
        self._parts: list[bytes] = []
        self._parts_at = 0
        self.end = 0

    # Opening

    def load(self, flushed_pos: int) -> None:
        """Open the files and find the end: the first place from `flushed_pos` on where no unit stands."""
        starts = load_starts(self._fs, self._folder, self._file_size, "mappedFileSizeTimerLog")
        for start in starts:
            self._fds[start] = self._fs.open(segment_path(self._folder, start))
        if not starts:
            self.end = self._parts_at = max(flushed_pos - flushed_pos % self._file_size, 0)
            return
        self.end = self.aligned(min(flushed_pos, starts[-1] + self._file_size - 1))
        for pos, _ in self.walk(self.end):
            self.end = pos + UNIT_SIZE
        self._parts_at = self.end

    def aligned(self, pos: int) -> int:
        """The start of the unit that `pos` is in, within the files there are."""
        first = min(self._fds, default=pos)
        pos = max(pos, first)
        at = pos % self._file_size
        return pos - at + min(at - at % UNIT_SIZE, self._units_end)

    # Appending

    def append(
        self, previous_pos: int, magic: int, write_time_ms: int, delay_ms: int, offset: int, size: int,
        topic_hash: int, due_ms: int,
    ) -> int:  # fmt: skip
        """Put one unit behind the last; returns its position."""
        pos = self.end
        if pos % self._file_size == self._units_end:
            self.write()
            rest = self._file_size - self._units_end
            write_all(self._fs, self._fd_of(pos), _BLANK.pack(rest, 0, _BLANK_MAGIC), self._units_end)
            pos += rest
            self._parts_at = pos
        self._parts.append(
            UNIT.pack(UNIT_SIZE, previous_pos, magic, write_time_ms, delay_ms, offset, size, topic_hash, due_ms)
        )
        self.end = pos + UNIT_SIZE
        return pos

    def write(self) -> None:
        """Hand what was appended to the system."""
        if self._parts:
            data = b"".join(self._parts)
            write_all(self._fs, self._fd_of(self._parts_at), data, self._parts_at % self._file_size)
            self._parts.clear()
            self._parts_at = self.end

    def _fd_of(self, pos: int) -> int:
        start = pos - pos % self._file_size
        self._unsynced.add(start)
        fd = self._fds.get(start)
        if fd is None:
            self._fs.make_dirs(self._folder)
            fd = self._fds[start] = self._fs.open(segment_path(self._folder, start), create=True)
            self._fs.truncate(fd, self._file_size)
            self._new_names = True
        return fd

    @property
    def written(self) -> int:
        """Position up to which the system has everything."""
        return self._parts_at

    def take_unsynced(self) -> list[int]:
        """Descriptors written since the last time, for `sync`."""
        unsynced, self._unsynced = self._unsynced, set()
        return [self._fds[start] for start in sorted(unsynced) if start in self._fds]

    def sync(self, fds: list[int]) -> None:
        """To the disk. Any thread."""
        for fd in fds:
            self._fs.sync(fd)
        if self._new_names:
            self._new_names = False
            self._fs.fsync_dir(self._folder)

    # Reading

    def unit_at(self, pos: int) -> TimerUnit | None:
        """The unit that stands at a position. Any thread."""
        fd = self._fds.get(pos - pos % self._file_size)
        data = b"" if fd is None else self._fs.pread(fd, UNIT_SIZE, pos % self._file_size)
        return _unit(data, 0) if len(data) == UNIT_SIZE else None

    def chain(self, last_pos: int) -> Iterator[tuple[int, TimerUnit]]:
        """The units of a slot, the last first; positions fall, or the chain is broken and ends. Any thread."""
        pos, block, block_pos = last_pos, b"", 0
        while pos >= 0:
            if not block_pos <= pos <= block_pos + len(block) - UNIT_SIZE:
                start = pos - pos % self._file_size
                fd = self._fds.get(start)
                if fd is None:
                    return
                block_pos = max(pos + UNIT_SIZE - _BLOCK, start)
                block = self._fs.pread(fd, pos + UNIT_SIZE - block_pos, block_pos - start)
            unit = _unit(block, pos - block_pos)
            if unit is None:
                return
            yield pos, unit
            if unit.previous_pos >= pos:
                return
            pos = unit.previous_pos

    def walk(self, pos: int) -> Iterator[tuple[int, TimerUnit]]:
        """The units from an aligned position on, in the order they were put. Any thread."""
        while (fd := self._fds.get(pos - pos % self._file_size)) is not None:
            at = pos % self._file_size
            block = self._fs.pread(fd, min(_BLOCK, self._units_end - at), at) if at < self._units_end else b""
            for here in range(0, len(block) - UNIT_SIZE + 1, UNIT_SIZE):
                unit = _unit(block, here)
                if unit is None:
                    return
                yield pos + here, unit
            if at + len(block) < self._units_end:
                pos += len(block)
                continue
            magic = self._fs.pread(fd, _MAGIC.size, self._units_end + 12)
            if len(magic) < _MAGIC.size or _MAGIC.unpack(magic)[0] != _BLANK_MAGIC:
                return
            pos += self._file_size - at

    def walk_back(self) -> Iterator[tuple[int, TimerUnit]]:
        """All units, the newest first."""
        pos = self.end
        while True:
            at = pos % self._file_size
            pos = pos - UNIT_SIZE if at else pos - self._file_size + self._units_end - UNIT_SIZE
            unit = self.unit_at(pos) if pos >= 0 else None
            if unit is None:
                return
            yield pos, unit

    # Shortening

    def cut(self, pos: int) -> None:
        """Make `pos` the end again: the units from there on never were."""
        for start, fd in self._fds.items():
            low = max(pos - start, 0)
            if low < self._file_size and start < self.end:
                self._fs.zero(fd, low, self._file_size)
        self.end = self._parts_at = pos

    def delete_before(self, min_offset: int, write_time_ms: int) -> list[str]:
        """Forget the oldest files whose messages have left the CommitLog and were put before this time; their paths.

        Write times never fall along the log; offsets do where a slot was put again (`TimerFiles.replace`).
        """
        gone = []
        for start in sorted(self._fds)[:-1]:
            last = self.unit_at(start + self._units_end - UNIT_SIZE)
            if last is None or last.offset >= min_offset or last.write_time_ms >= write_time_ms:
                break
            self._fs.close(self._fds.pop(start))
            gone.append(segment_path(self._folder, start))
        return gone

    def close(self) -> None:
        """Let go of the files; what was not written is lost."""
        self._parts.clear()
        for fd in self._fds.values():
            self._fs.close(fd)
        self._fds.clear()


def _unit(data: bytes, at: int) -> TimerUnit | None:
    size, *fields = UNIT.unpack_from(data, at)
    return TimerUnit(*fields) if size == UNIT_SIZE and 0 <= fields[1] <= 0xF else None
