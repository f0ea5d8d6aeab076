"""A disk that fails when told to: the store's file system with faults planned by call and count.

fs = FaultyFs()
fs.fail("sync", errno.EIO)                 the next sync raises EIO, later ones succeed
fs.fail("preallocate", errno.ENOSPC, times=3)
fs.cut_writes(7)                           the next write takes only 7 bytes
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from threading import Lock

from cometmq.store.fs import Buffer, OsFs


class FaultyFs(OsFs):
    """The real file system, with planned faults; `calls` counts what was asked of it."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._faults: dict[str, list[int]] = {}
        self._cuts: list[int] = []
        self._lock = Lock()

    def fail(self, call: str, error: int, *, after: int = 0, times: int = 1) -> None:
        """Let `call` raise `error`, `times` in a row, after `after` more good ones."""
        self._faults[call] = [0] * after + [error] * times

    def cut_writes(self, *sizes: int) -> None:
        """Let the next writes take only so many bytes."""
        self._cuts += sizes

    def heal(self) -> None:
        """No more faults."""
        self._faults.clear()
        self._cuts.clear()

    def _call(self, call: str) -> None:
        with self._lock:
            self.calls[call] += 1
            planned = self._faults.get(call)
            error = planned.pop(0) if planned else 0
        if error:
            raise OSError(error, os.strerror(error))

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
        self._call("pwrite")
        if self._cuts:
            data = memoryview(data)[: self._cuts.pop(0)]
        return super().pwrite(fd, data, offset)

    def pwritev(self, fd: int, parts: Sequence[Buffer], offset: int) -> int:
        self._call("pwritev")
        if self._cuts:
            parts = [memoryview(b"".join(parts))[: self._cuts.pop(0)]]
        return super().pwritev(fd, parts, offset)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._call("pread")
        return super().pread(fd, size, offset)

    def sync(self, fd: int) -> None:
        self._call("sync")
        super().sync(fd)

    def fsync_dir(self, path: str) -> None:
        self._call("fsync_dir")
        super().fsync_dir(path)

    def unlink(self, path: str) -> None:
        self._call("unlink")
        super().unlink(path)
