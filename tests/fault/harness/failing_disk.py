"""A disk on which one call fails: the n-th of all, in one of five ways.

A short write takes half of the bytes and says so. A sync that fails drops what it should have brought to the disk, as
Linux does, so that only a store which never asks again and never acknowledges after it keeps its promises.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cometmq.store.fs import Buffer

from .crash_disk import CrashDisk

SHORT_WRITE: Final = "short write"
FAULTS: Final = ("EIO", "ENOSPC", "EINTR", "EMFILE", SHORT_WRITE)


class FailingDisk(CrashDisk):
    """Counts calls; the one numbered `fail_at` fails with `fault`."""

    def __init__(self, root: Path, fail_at: int = -1, fault: str = "EIO") -> None:
        super().__init__(root)
        self.fail_at = fail_at
        self.fault = fault
        self.calls: list[str] = []  # what was called, in order
        self.failed = ""

    def _call(self, what: str) -> bool:
        """Count a call; True if a write is to be short."""
        number = len(self.calls)
        self.calls.append(what)
        if number != self.fail_at:
            return False
        if self.fault == SHORT_WRITE:
            self.failed = what if what.startswith("pwrite") else ""
            return bool(self.failed)
        self.failed = what
        code = getattr(errno, self.fault)
        raise OSError(code, os.strerror(code))

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        self._call("open")
        return super().open(path, create=create, read_only=read_only)

    def preallocate(self, fd: int, size: int) -> None:
        self._call("preallocate")
        super().preallocate(fd, size)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate")
        super().truncate(fd, size)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        if self._call("pwrite"):
            data = memoryview(data)[: len(data) // 2 or 1]
        return super().pwrite(fd, data, offset)

    def pwritev(self, fd: int, parts: Sequence[Buffer], offset: int) -> int:
        if self._call("pwritev"):
            parts = [memoryview(b"".join(parts))[: sum(map(len, parts)) // 2]]
        return super().pwritev(fd, parts, offset)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._call("pread")
        return super().pread(fd, size, offset)

    def map_read(self, path: str) -> memoryview:
        self._call("map")
        return super().map_read(path)

    def zero(self, fd: int, offset: int, end: int) -> int:
        self._call("zero")
        return super().zero(fd, offset, end)

    def sync(self, fd: int) -> None:
        try:
            self._call("sync")
        except OSError:
            self.drop_unsynced(fd)
            raise
        super().sync(fd)

    def fsync_dir(self, path: str) -> None:
        self._call("fsync_dir")
        super().fsync_dir(path)

    def make_dirs(self, path: str) -> None:
        self._call("make_dirs")
        super().make_dirs(path)

    def rename(self, old: str, new: str) -> None:
        self._call("rename")
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        self._call("unlink")
        super().unlink(path)

    def list_dir(self, path: str) -> list[str]:
        self._call("list_dir")
        return super().list_dir(path)
