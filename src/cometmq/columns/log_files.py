"""The files of a CommitLog, read without a broker: of a stopped, copied or running store, CometMQ's or Java's.

    commitlog/00000000000000000000      records … blank record
    commitlog/00000000001073741824      records … end of the log, zeros
    commitlog/00000000002147483648      zeros: made early

A log has no marks to start at in the middle of a file, but every record carries its own place: `first_record` looks
for bytes that have the magic number, tell the place where they stand, and whose lengths all agree. A body may hold
such bytes on purpose; so whoever reads a range checks at its end that the next range begins where this one stopped
(`log_reading`). The first range of a file begins at its first byte, so all of them are proved, one by the other.

`find_end` says where the log ends now, so that what is read does not depend on when. Behind it nothing but zeros may
stand; else `Tail.torn_size` tells how many bytes are no record: a write cut short, or one that is under way.

Mirrors: MappedFileQueue.load, CommitLog.recoverAbnormally; the way into the middle is our own.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.columns.twins import Walks, make_walk
from cometmq.columns.walk import Stop
from cometmq.errors import StoreError
from cometmq.wire.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PREFIX

_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_MAGIC_AT: Final = 4
_PROBE_SIZE: Final = 8 << 20  # wider than a record is by the usual settings
_PIECE_SIZE: Final = 1 << 20
_ZEROS: Final = bytes(_PIECE_SIZE)
_WINDOW_SIZE_MIN: Final = 4096


class LogFile(NamedTuple):
    """One file: its first byte has this physical offset, and it should reach to `end`."""

    path: str
    start: int
    size: int


class LogRange(NamedTuple):
    """What one task reads: records that begin in [start, stop) of a file, which count from the file's first byte."""

    path: str
    file_start: int
    start: int
    stop: int
    end: int  # where the file's records end: that of the log, or of the file


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the log ends: in which file, at which byte of it, and how many bytes behind that are no record."""

    file: LogFile
    end: int
    torn_size: int


def find_files(store_path: str) -> list[LogFile]:
    """The log's files, in order; `store_path` is a store's folder or its `commitlog` folder itself."""
    root = Path(store_path)
    if not root.is_dir():
        raise StoreError(f"{store_path} is not a folder: a store is expected there, or its folder commitlog")
    folder = root / "commitlog" if (root / "commitlog").is_dir() else root
    files = [
        LogFile(str(path), int(path.name), path.stat().st_size)
        for path in sorted(folder.iterdir())
        if len(path.name) == 20 and path.name.isdecimal() and path.is_file()
    ]
    if not files:
        raise StoreError(f"{folder} holds no file of a CommitLog (their names have 20 digits): is it a store's folder?")
    return files


def check_gaps(files: Sequence[LogFile]) -> list[str]:
    """What is missing between the files, each as a sentence."""
    return [
        f"{before.path} ends at offset {before.start + before.size}, but the next file begins at {after.start}: "
        f"{after.start - before.start - before.size} bytes of the log are missing"
        for before, after in pairwise(files)
        if before.start + before.size != after.start
    ]


class View:
    """A file mapped for reading."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else None
        except OSError as error:
            raise StoreError(
                f"{path} cannot be read: {error.strerror}; a running broker may have removed it with its old messages"
            ) from None
        if self._map is not None:
            self._map.madvise(mmap.MADV_SEQUENTIAL)
        self.data = memoryview(self._map) if self._map is not None else memoryview(b"")

    def find(self, needle: bytes, start: int, end: int) -> int:
        return self._map.find(needle, start, end) if self._map is not None else -1

    def close(self) -> None:
        # An error on its way up may hold a piece of it; then the map goes when that does.
        with contextlib.suppress(BufferError):
            self.data.release()
            if self._map is not None:
                self._map.close()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def first_record(view: View, file_start: int, at: int, end: int | None = None) -> int | None:
    """Where the first sound record, or the blank one that ends the file, begins at or behind `at`, before `end`."""
    probe = make_walk(())
    end = view.size if end is None else min(end, view.size)
    width = _WINDOW_SIZE_MIN
    while at < end:
        window_end = min(at + width, end)
        for start in sorted(_candidates(view, at, window_end)):
            if _is_sound(probe, view, file_start, start):
                return start
        at = window_end
        width = min(width * 2, _PIECE_SIZE)
    return None


def _candidates(view: View, at: int, end: int) -> Iterator[int]:
    """Places in [at, end) that have a magic number where a record has it."""
    for magic in _MAGICS:
        place = view.find(magic, at + _MAGIC_AT, end + _MAGIC_AT + 3)
        while place >= 0:
            yield place - _MAGIC_AT
            place = view.find(magic, place + 1, end + _MAGIC_AT + 3)


def _is_sound(probe: Walks, view: View, file_start: int, at: int) -> bool:
    _, _, reason = probe.add(view.data, at, at + 1, file_start)
    if reason == Stop.NEXT_SEGMENT:
        size: int = PREFIX.unpack_from(view.data, at)[0]
        return size == view.size - at
    return reason == Stop.REACHED


def find_end(files: Sequence[LogFile]) -> Tail:
    """Where the log ends."""
    for file in reversed(files):
        with View(file.path) as view:
            if view.size == 0 or (_first_nonzero(view, 0) is None and file is not files[0]):
                continue  # made early, or between creation and sizing
            return _end_in(file, view)
    return Tail(files[0], 0, 0)


def _end_in(file: LogFile, view: View) -> Tail:
    walk = make_walk(())
    at = _near_end(file, view)
    while True:
        _, at, reason = walk.add(view.data, at, -1, file.start)
        walk.take()
        if reason != Stop.NO_RECORD:
            return Tail(file, at, 0)
        # Behind the end stand zeros only; where they do not, the log may go on behind damage.
        torn_at = _first_nonzero(view, at)
        if torn_at is None:
            return Tail(file, at, 0)
        further = first_record(view, file.start, at + 1)
        if further is None:
            return Tail(file, at, _last_nonzero(view, torn_at) - at)
        at = further


def _near_end(file: LogFile, view: View) -> int:
    """The start of some record in the last part of the log: found by halving, for the log has no holes as a rule."""
    known, low, high = 0, 0, view.size // _PIECE_SIZE
    while low < high:
        middle = (low + high + 1) // 2
        at = middle * _PIECE_SIZE
        found = first_record(view, file.start, at, at + _PROBE_SIZE)
        if found is None:
            high = middle - 1
        else:
            known, low = found, middle
    return known


def _data_extents(path: str, at: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that the system keeps bytes for; the rest reads as zeros."""
    fd = os.open(path, os.O_RDONLY)
    try:
        while at < size:
            try:
                start = os.lseek(fd, at, os.SEEK_DATA)
                at = os.lseek(fd, start, os.SEEK_HOLE)
            except OSError:  # nothing but a hole
                return
            yield start, min(at, size)
    finally:
        os.close(fd)


def _pieces(view: View, at: int) -> Iterator[tuple[int, bytes]]:
    """What stands from `at` on, in pieces; those of zeros are left out."""
    for start, end in _data_extents(view.path, at, view.size):
        for piece_at in range(start, end, _PIECE_SIZE):
            piece = bytes(view.data[piece_at : min(piece_at + _PIECE_SIZE, end)])
            if piece != _ZEROS[: len(piece)]:  # many times quicker than to strip them
                yield piece_at, piece


def _first_nonzero(view: View, at: int) -> int | None:
    for piece_at, piece in _pieces(view, at):
        return piece_at + len(piece) - len(piece.lstrip(b"\0"))
    return None


def _last_nonzero(view: View, at: int) -> int:
    """Behind the last byte that is not zero."""
    last = at
    for piece_at, piece in _pieces(view, at):
        last = piece_at + len(piece.rstrip(b"\0"))
    return last


def share_out(files: Sequence[LogFile], tail: Tail, range_size: int) -> list[LogRange]:
    """The log up to its end in ranges of about `range_size` bytes, none over the edge of a file."""
    ranges: list[LogRange] = []
    for file in files:
        if file.start > tail.file.start:
            break
        end = tail.end if file.start == tail.file.start else file.size
        count = max(1, -(-end // range_size))
        edges = [end * number // count for number in range(count + 1)]
        ranges += [LogRange(file.path, file.start, start, stop, end) for start, stop in pairwise(edges) if stop > start]
    return ranges
