"""The store's port to the file system: every byte it reads or writes passes here.

One small interface, so that a recorder or a faulty disk can stand in its place. The methods are as raw as the
system calls: a write may be short, an error is an `OSError`. `write_all` and `write_parts` finish short writes.

Invariants: commit-log files are preallocated before the first write, so that a full disk shows when a file is
created and never in the middle of a message; nothing is ever written through a map.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from cometmq.store import page_cache

Buffer = bytes | bytearray | memoryview

_IOV_MAX: Final = 1024  # Linux takes no more pieces in one call
_ZEROS: Final = bytes(1 << 20)


class FileSystem(Protocol):
    """What the store asks of a file system."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        """A descriptor for reading and writing; `create` makes the file if it is absent."""

    def close(self, fd: int) -> None: ...

    def preallocate(self, fd: int, size: int) -> None:
        """Give the file `size` bytes of real disk space."""

    def truncate(self, fd: int, size: int) -> None:
        """Set the length; what is added is a hole."""

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int: ...

    def pwritev(self, fd: int, parts: Sequence[Buffer], offset: int) -> int: ...

    def pread(self, fd: int, size: int, offset: int) -> bytes: ...

    def in_memory(self, view: memoryview) -> bool:
        """Whether this slice of a map can be read without waiting for the disk; False if nobody can tell."""

    def data_ranges(self, fd: int, offset: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of `[offset, end)` that may hold anything but zeros."""

    def zero(self, fd: int, offset: int, end: int) -> int:
        """Make `[offset, end)` read as zeros and keep its space; how many bytes there were, up to the last not zero."""

    def sync(self, fd: int) -> None:
        """Data, and the metadata needed to read it back, to the disk (fdatasync)."""

    def fsync_dir(self, path: str) -> None:
        """The names in a directory to the disk."""

    def map_read(self, path: str) -> memoryview:
        """The whole file, read-only; stays valid while someone holds a slice of it, even after `unlink`."""

    def make_dirs(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def remove_dir(self, path: str) -> None:
        """Remove a directory if it is there and empty."""

    def list_dir(self, path: str) -> list[str]:
        """Sorted names; empty if the directory is absent."""

    def is_dir(self, path: str) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def used_ratio(self, path: str) -> float:
        """Used share of the partition, 0.0 to 1.0; -1.0 if the path is absent."""


class OsFs:
    """The machine's own file system."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
        return os.open(path, flags | os.O_CREAT if create else flags, 0o644)

    def close(self, fd: int) -> None:
        os.close(fd)

    def preallocate(self, fd: int, size: int) -> None:
        os.posix_fallocate(fd, 0, size)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def pwritev(self, fd: int, parts: Sequence[Buffer], offset: int) -> int:
        return os.pwritev(fd, parts, offset)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def in_memory(self, view: memoryview) -> bool:
        return page_cache.in_memory(view)

    def data_ranges(self, fd: int, offset: int, end: int) -> Iterator[tuple[int, int]]:
        os.posix_fadvise(fd, offset, end - offset, os.POSIX_FADV_RANDOM)  # what is read ahead looks like data next time
        while offset < end:
            try:
                start = os.lseek(fd, offset, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
                start, stop = offset, end  # a file system that does not tell
            else:
                stop = min(end, os.lseek(fd, start, os.SEEK_HOLE))
            if start < stop:
                yield start, stop
            offset = max(stop, offset + 1)

    def zero(self, fd: int, offset: int, end: int) -> int:
        # Only what holds data is rewritten: an untouched preallocated tail of a gigabyte costs nothing.
        size = 0
        # All are asked for before one is read: what the system reads ahead would look like data too.
        for start, stop in list(self.data_ranges(fd, offset, end)):
            for at in range(start, stop, len(_ZEROS)):
                chunk = _ZEROS[: min(len(_ZEROS), stop - at)]
                data = os.pread(fd, len(chunk), at)
                if data != chunk:
                    write_all(self, fd, chunk, at)
                    size = at + len(data.rstrip(b"\0")) - offset
                else:
                    os.posix_fadvise(fd, at, len(chunk), os.POSIX_FADV_DONTNEED)
        return size

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def map_read(self, path: str) -> memoryview:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(fd)

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 (paths are plain strings on this floor)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)  # noqa: PTH105

    def unlink(self, path: str) -> None:
        os.unlink(path)  # noqa: PTH108

    def remove_dir(self, path: str) -> None:
        try:
            os.rmdir(path)  # noqa: PTH106
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110

    def size(self, path: str) -> int:
        return os.stat(path).st_size  # noqa: PTH116

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116

    def used_ratio(self, path: str) -> float:
        try:
            usage = shutil.disk_usage(path)
        except FileNotFoundError:
            return -1.0
        return usage.used / (usage.used + usage.free) if usage.used + usage.free else 1.0


def write_all(fs: FileSystem, fd: int, data: Buffer, offset: int) -> None:
    """Write every byte, however short the single writes are. The count of a short one is not believed at first."""
    if fs.pwrite(fd, data, offset) == len(data):
        return
    view, done = memoryview(data), 0  # the same bytes once more, in the same place
    while done < len(view):
        count = fs.pwrite(fd, view[done:], offset + done)
        if count <= 0:
            raise OSError(errno.EIO, "a write took no bytes")
        done += count


def write_parts(fs: FileSystem, fd: int, parts: Sequence[Buffer], offset: int) -> None:
    """Write many pieces one after the other: in as few calls as the system allows."""
    for first in range(0, len(parts), _IOV_MAX):
        some = parts[first : first + _IOV_MAX]
        size = sum(map(len, some))
        if fs.pwritev(fd, some, offset) != size:
            write_all(fs, fd, b"".join(some), offset)  # short: the same bytes once more, in the same place
        offset += size


def remove_tree(fs: FileSystem, path: str) -> None:
    """Remove a directory and all below it; what is gone already is no error."""
    if fs.is_dir(path):
        for name in fs.list_dir(path):
            remove_tree(fs, f"{path}/{name}")
        fs.remove_dir(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            fs.unlink(path)
