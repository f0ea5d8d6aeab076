"""A store folder opened for looking: nothing in it is changed, and no broker may have it open meanwhile.

What a broker reads from its settings is read off the files themselves: all files of the log have one size, and so have
those of the queues. Only the index needs the settings, if they are not the usual ones.

Mirrors: nothing in Java.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cometmq import config
from cometmq.clock import SystemClock
from cometmq.errors import StoreError, StoreLocked
from cometmq.store.batch_queue import BATCH_UNIT_SIZE, BatchQueues
from cometmq.store.checkpoint import Checkpoint
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import UNIT_SIZE
from cometmq.store.fs import Buffer, OsFs
from cometmq.store.lock import ABORT_NAME, LOCK_NAME
from cometmq.store.queue_table import QueueTable
from cometmq.store.segment import Segment


class LookingFs(OsFs):
    """The machine's file system, of which only the reading half works."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        return super().open(path, read_only=True)

    def make_dirs(self, path: str) -> None:
        pass

    def truncate(self, fd: int, size: int) -> None:
        pass

    def unlink(self, path: str) -> None:
        pass

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        raise StoreError("a file would be written, but this store is only looked at")


class Folder:
    """A store's files: the log, the queues, the checkpoint. `faults` says which files do not belong there, and
    `notes` what looks as if it did not fit the settings."""

    def __init__(self, root: str, values: Mapping[str, str]) -> None:
        given = store_config(root, values)
        refuse_if_no_store(given)
        self.root = root
        self.fs = LookingFs()
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.missing: list[int] = []  # starts of files that are missing between others
        files = self._numbered(given.commit_log_dir)
        sizes = [size for _, size in files if size]
        self.config = dataclasses.replace(
            given,
            mapped_file_size_commit_log=max(sizes, default=given.mapped_file_size_commit_log),
            mapped_file_size_consume_queue=self._file_size(
                given.consume_queue_dir, UNIT_SIZE, given.mapped_file_size_consume_queue, "mappedFileSizeConsumeQueue"
            ),
            mapper_file_size_batch_consume_queue=self._file_size(
                given.batch_consume_queue_dir,
                BATCH_UNIT_SIZE,
                given.mapper_file_size_batch_consume_queue,
                "mapperFileSizeBatchConsumeQueue",
            ),
        )
        self.log = CommitLog(self.fs, self.config, SystemClock())
        self._load_log(files)
        self.queues = QueueTable(
            self.fs,
            self.config.consume_queue_dir,
            self.config.mapped_file_size_consume_queue,
            setting="mappedFileSizeConsumeQueue",
        )
        self.queues.load()
        self.batches = BatchQueues(self.fs, self.config, self.queues, lambda topic: False)
        self.batches.load()
        self.checkpoint = Checkpoint(self.fs, self.config.checkpoint_path)
        if self.has_checkpoint:
            self.checkpoint.load()

    @property
    def has_checkpoint(self) -> bool:
        return self.fs.exists(self.config.checkpoint_path)

    @property
    def stopped_cleanly(self) -> bool:
        return not self.fs.exists(f"{self.root}/{ABORT_NAME}")

    def close(self) -> None:
        """Let go of descriptors and maps."""
        self.log.close()
        self.queues.close()
        self.batches.table.close()
        self.checkpoint.let_go()

    def _numbered(self, folder: str) -> list[tuple[str, int]]:
        found = []
        for name in self.fs.list_dir(folder):
            path = f"{folder}/{name}"
            if len(name) == 20 and name.isdecimal():
                found.append((path, self.fs.size(path)))
            elif not self.fs.is_dir(path):
                self.faults.append(f"{path} does not belong to the store: move it away")
        return found

    def _file_size(self, folder: str, unit_size: int, given: int, setting: str) -> int:
        """The size that a file has as the settings say, or else most files, and of two sizes the larger."""
        found = (path.stat().st_size for path in Path(folder).glob("*/*/" + "[0-9]" * 20))
        sizes = Counter(size for size in found if size and size % unit_size == 0)
        if not sizes or given in sizes:
            return given
        size = max(sizes, key=lambda size: (sizes[size], size))
        self.notes.append(
            f"the files of {folder} have {size:,} bytes, but {setting} is {given:,}: a broker without another setting "
            "does not start; give its settings with -c"
        )
        return size

    def _load_log(self, files: list[tuple[str, int]]) -> None:
        log, size = self.log, self.config.mapped_file_size_commit_log
        for path, length in files:
            start = int(path.rpartition("/")[2])
            if length == size and start % size == 0:
                log.segments[start] = Segment(path, start, size)
            elif length or path != files[-1][0]:
                self.faults.append(f"{path} has {length} bytes, and the others have {size}")
        log.min_offset = min(log.segments, default=0)
        last = max(log.segments, default=0)
        self.missing = [start for start in range(log.min_offset, last, size) if start not in log.segments]
        log.end = log.written = log.flushed = last + size if log.segments else 0


def store_config(root: str, values: Mapping[str, str]) -> StoreConfig:
    """What the settings say of a store in this folder."""
    return config.section(StoreConfig, values, store_path_root_dir=root)


def refuse_if_no_store(given: StoreConfig) -> None:
    """Raise `StoreError` if there is nothing to look at."""
    if not Path(given.commit_log_dir).is_dir() and not Path(given.checkpoint_path).exists():
        root = given.store_path_root_dir
        raise StoreError(f"{root} is no store: it has no folder commitlog (storePathCommitLog names another)")


def refuse_if_open(root: str) -> None:
    """Raise `StoreLocked` if a broker, CometMQ's or Java's, has the store open. Takes and changes nothing."""
    path = Path(root, LOCK_NAME)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
    except BlockingIOError:
        raise StoreLocked(f"{path} is locked: a broker has this store open. Stop it first") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be looked at: {error.strerror}") from None
    finally:
        os.close(fd)
