"""A sync that fails is final.

Linux reports a lost write once: afterwards the pages count as clean, and the next sync says that all is well. So a
failed sync is never asked for again and never taken for a full disk that heals; whoever sees `SyncFailed` fences.
"""

from __future__ import annotations

from cometmq.store.fs import FileSystem


class SyncFailed(OSError):
    """What was written since the last sync may be on the disk or not, and nobody will ever say."""


def sync_file(fs: FileSystem, fd: int) -> None:
    """Bring a file to the disk."""
    try:
        fs.sync(fd)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error


def sync_names(fs: FileSystem, folder: str) -> None:
    """Bring the names in a folder to the disk; one that is gone has none."""
    try:
        fs.fsync_dir(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error
