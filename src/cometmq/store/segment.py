"""One file of a segmented file, named by the 20-digit offset of its first byte.

    commitlog/00000000000000000000      bytes [0, S)
    commitlog/00000000001073741824      bytes [S, 2S)

All files of a folder have one size S, so the file of an offset is found by division. A wrong size means another
`mappedFileSize…` setting or damage, and the store refuses to guess. Empty or short files of zeros at the end are what a
crash leaves: the names reached the disk before the sizes did, or space was being made. They are removed.

Mirrors: MappedFileQueue.doLoad, DefaultMappedFile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cometmq.errors import StoreError
from cometmq.store.fs import FileSystem

_STEP: Final = 1 << 20


def segment_path(folder: str, start: int) -> str:
    return f"{folder}/{start:020d}"


def load_starts(
    fs: FileSystem,
    folder: str,
    size: int,
    setting: str,
    is_damaged: Callable[[int, int], bool] = lambda start, length: False,
) -> list[int]:
    """Start offsets of the files in a folder, ascending. `setting` names what decides their size; one of another size
    is asked for, and left out if it is damaged."""
    names = [name for name in fs.list_dir(folder) if not fs.is_dir(f"{folder}/{name}")]
    for name in names:
        if len(name) != 20 or not name.isdecimal():
            raise StoreError(f"{folder}/{name} does not belong to the store: move it away")
    while names and _is_unfinished(fs, f"{folder}/{names[-1]}", size):
        fs.unlink(f"{folder}/{names.pop()}")
    starts: list[int] = []
    for name in names:
        path, start = f"{folder}/{name}", int(name)
        length = fs.size(path)
        if length != size and start % size == 0 and is_damaged(start, length):
            continue
        if length != size or start % size:
            raise StoreError(
                f"{path} has {length} bytes, but {setting} is {size}: set it to what the store was made with, "
                "or restore the file"
            )
        starts.append(start)
    return starts


def _is_unfinished(fs: FileSystem, path: str, size: int) -> bool:
    """Whether a file was being made, and never written to."""
    length = fs.size(path)
    if not 0 < length < size:
        return length == 0
    fd = fs.open(path, read_only=True)
    try:
        return not any(any(fs.pread(fd, _STEP, at)) for at in range(0, length, _STEP))
    finally:
        fs.close(fd)


class Segment:
    """A file of the CommitLog: preallocated, written with pwrite, read through a map."""

    __slots__ = ("end", "fd", "path", "start", "unnamed", "view")

    def __init__(self, path: str, start: int, size: int) -> None:
        self.path = path
        self.start = start
        self.end = start + size
        self.fd = -1
        self.unnamed = False  # created, and its name not yet synced to the folder
        self.view: memoryview | None = None

    @classmethod
    def create(cls, fs: FileSystem, folder: str, start: int, size: int) -> Segment:
        """A new file with all its space; a disk too full for it leaves nothing behind."""
        segment = cls(segment_path(folder, start), start, size)
        segment.fd = fs.open(segment.path, create=True)
        segment.unnamed = True
        try:
            fs.preallocate(segment.fd, size)
        except OSError:
            segment.close(fs)
            fs.unlink(segment.path)
            raise
        return segment

    def open(self, fs: FileSystem) -> None:
        """Have a descriptor for writing."""
        if self.fd < 0:
            self.fd = fs.open(self.path)

    def close(self, fs: FileSystem) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            fs.close(fd)
