"""One process per store, and a mark that says whether the last one stopped cleanly.

    <root>/lock    byte 0 is locked while a broker runs; the text "lock" is what Java leaves there
    <root>/abort   exists while a broker runs; removed only by a clean stop; holds the process id

Java locks the same byte with the same kind of lock (POSIX, `fcntl`), so either refuses the other. Such a
lock belongs to the process, and closing any descriptor of the file drops it: a second store in this
process must therefore be refused before the file is opened.

Mirrors: DefaultMessageStore.start, createTempFile, isTempFileExist.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from cometmq.errors import StoreError, StoreLocked
from cometmq.store.fs import FileSystem, write_all

LOCK_NAME: Final = "lock"
ABORT_NAME: Final = "abort"

_held_here: set[str] = set()


class StoreLock:
    """`acquire` before anything else is read, `release` after everything is written."""

    def __init__(self, fs: FileSystem, root: str) -> None:
        self._fs = fs
        self._root = root
        self._path = str(Path(root, LOCK_NAME))
        self._abort_path = str(Path(root, ABORT_NAME))
        self._key = ""
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock or raise `StoreLocked`."""
        key = str(Path(self._path).resolve())
        if key in _held_here:
            raise StoreLocked(f"{self._path} is held by this process already: close the other store first")
        self._fs.make_dirs(self._root)
        fd = self._fs.open(self._path, create=True)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
            write_all(self._fs, fd, b"lock", 0)
            self._fs.sync(fd)
        except BlockingIOError:
            self._fs.close(fd)
            raise StoreLocked(
                f"{self._path} is locked by another process, a CometMQ or RocketMQ broker on the same store: "
                "stop it, or give this broker another storePathRootDir"
            ) from None
        except OSError as error:
            self._fs.close(fd)
            raise StoreError(f"{self._path} cannot be locked: {error.strerror}; the store needs a local disk") from None
        _held_here.add(key)
        self._key, self._fd = key, fd

    def release(self) -> None:
        """Give the lock back; the file stays, as Java leaves it."""
        if self._fd >= 0:
            self._fs.close(self._fd)
            self._fd = -1
            _held_here.discard(self._key)

    @property
    def held(self) -> bool:
        return self._fd >= 0

    @property
    def abort_exists(self) -> bool:
        """Whether the last broker on this store died, or is still running."""
        return self._fs.exists(self._abort_path)

    def create_abort(self) -> None:
        """Mark the store as in use; durable before it returns."""
        fd = self._fs.open(self._abort_path, create=True)
        try:
            self._fs.truncate(fd, 0)
            write_all(self._fs, fd, str(os.getpid()).encode(), 0)
            self._fs.sync(fd)
        finally:
            self._fs.close(fd)
        self._fs.fsync_dir(self._root)

    def remove_abort(self) -> None:
        """Mark the store as cleanly closed."""
        if self.abort_exists:
            self._fs.unlink(self._abort_path)
            self._fs.fsync_dir(self._root)
