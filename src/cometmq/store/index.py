"""Messages by key: where in the CommitLog are the messages of a topic that carry a key, a unique key or a tag?

    <root>/index/20250131093000123    local time of creation; names sort by age, only the last is written

Key text: `topic#key`, and `topic#T#tag` for a tag; only its hash is stored, so a reader must look at the message.

Invariants: a put makes no system call but when a file is full or 1 MiB of entries has gathered; `query` finds
everything put; entries stand in the order of the log, each message's once.

Flushing has three steps so that the slow one may leave the loop's thread: `prepare` (copies what is dirty; loop
thread), `run` (writes and syncs; any thread), `finish` (loop thread). `flush` is all three. A full disk costs
nothing while the entries fit in memory: they wait for the next flush, or for room for the next file.

Mirrors: IndexService.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from cometmq.clock import Clock, SystemClock
from cometmq.store import index_file
from cometmq.store.append import Entry as Message
from cometmq.store.config import StoreConfig
from cometmq.store.fs import FileSystem
from cometmq.store.index_file import ENTRY, Entry, IndexFile, IndexWrite
from cometmq.store.index_keys import (
    PENDING_MAX,
    ROLLBACK,
    TAG_PREFIX,
    TAG_TYPE,
    index_keys,
    pending_entries,
    positive_hash,
    topic_hash,
)
from cometmq.store.index_repair import TimeAt, header_fits, is_marked, mend_header, repair, slots_run_ahead
from cometmq.store.syncing import sync_file, sync_names

log = logging.getLogger("cometmq.store")


def file_name(time_ms: int) -> str:
    """yyyyMMddHHmmssSSS, local time."""
    return f"{time.strftime('%Y%m%d%H%M%S', time.localtime(time_ms // 1000))}{time_ms % 1000:03d}"


@dataclass(frozen=True, slots=True)
class IndexFlush:
    """A flush under way: complete up to `store_time_ms` once it has run."""

    fs: FileSystem
    new_names_in: str | None
    writes: list[IndexWrite]
    store_time_ms: int

    def run(self) -> None:
        """Write and sync; from any thread."""
        for write in self.writes:
            write.run()
        if self.new_names_in:
            sync_names(self.fs, self.new_names_in)


class IndexService:
    """The files of the index. One thread does everything but `IndexFlush.run` and `search`."""

    def __init__(self, fs: FileSystem, directory: str, config: StoreConfig, clock: Clock | None = None) -> None:
        self._fs = fs
        self._dir = directory
        self._config = config
        self._clock = clock or SystemClock()
        self._files: list[IndexFile] = []
        self._last: IndexFile | None = None  # the one that takes puts
        self._unflushed: list[IndexFile] = []
        self._new_names = False
        self._flushing = False
        self._indexed_before = -1  # what stood in the files at load; replay brings it again
        self._seen_ms = 0
        self._pending = pending_entries()
        self._waiting: list[Entry] = []  # taken from there, but the disk has no room for a file
        self._retired: list[IndexFile] = []  # deleted, but a search or a flush may still use them
        self._readers = 0
        self._readers_lock = Lock()
        self.flushed_store_time_ms = 0
        self.fault: str | None = None  # while set nothing is indexed; only a replay of the log can catch up
        self.skipped: list[str] = []
        self.ahead = (
            False  # whether files were newer than the checkpoint: Java deletes such after a kill, whoever made them
        )
        self.lost = False  # whether what was there turned out to hold nothing, and is to be made again

    # Start and end

    def load(self, clean_exit: bool, checkpoint_index_ms: int, time_at: TimeAt = lambda offset: None) -> None:
        """Open what is there, and mend headers; after a kill, repair what was being written."""
        self._fs.make_dirs(self._dir)
        found = [file for name in self._fs.list_dir(self._dir) if (file := self._open(name)) is not None]
        for file in found:
            if not header_fits(file, time_at, clean=clean_exit):
                if not is_marked(file):
                    log.warning("%s: its header is not what its entries say, and is written anew", file.path)
                mend_header(file, time_at)
        files = [file for file in found if not self._unlink_if_empty(file)]
        # No file is left empty but by a kill before its first flush.
        self.lost = not files and (bool(self.skipped) or (bool(found) and (clean_exit or checkpoint_index_ms > 0)))
        if not clean_exit:
            doubtful = files[-2:]  # only these can have had a flush under way
            for file in files:
                if file.end_ms > checkpoint_index_ms or (file in doubtful and slots_run_ahead(file)):
                    repair(file)
            files = [file for file in files if not self._unlink_if_empty(file)]
        self._sync_ahead([file for file in files if file.end_ms > checkpoint_index_ms])
        self._files = files
        if files:
            last = files[-1]
            self._indexed_before = last.end_offset
            self._seen_ms = last.end_ms
            if not last.full:
                self._last = last
                last.load_slots()
        for file in files[:-1]:
            file.forget_slots()
        self._seen_ms = self.flushed_store_time_ms = max(checkpoint_index_ms, self._seen_ms)

    def _sync_ahead(self, files: list[IndexFile]) -> None:
        """Bring to the disk what the checkpoint does not vouch for, so that it may."""
        self.ahead = bool(files)
        for file in files:
            sync_file(self._fs, file.fd)
        if files:
            sync_names(self._fs, self._dir)

    def _open(self, name: str) -> IndexFile | None:
        if not name.isascii() or not name.isdigit():
            return None
        file = self._file(name)
        size = self._fs.size(file.path)
        if size == 0:
            self._fs.unlink(file.path)
            return None
        if size != file.size:
            self.skipped.append(
                f"{file.path} is left alone: it has {size} bytes, but maxHashSlotNum and maxIndexNum say {file.size}"
            )
            log.warning("%s", self.skipped[-1])
            return None
        file.open()
        return file

    def _file(self, name: str) -> IndexFile:
        path = f"{self._dir}/{name}"
        return IndexFile(self._fs, path, self._config.max_hash_slot_num, self._config.max_index_num)

    def _unlink_if_empty(self, file: IndexFile) -> bool:
        if file.next_entry > 1:
            return False
        file.close()
        self._fs.unlink(file.path)
        return True

    def truncate(self, log_end: int) -> None:
        """Recovery found that the log ends here: forget what lies behind, on disk too."""
        self.settle()
        while self._files and self._files[-1].end_offset >= log_end:
            file = self._files[-1]
            file.cut(log_end)
            if file not in self._unflushed:
                self._unflushed.append(file)
            if file.next_entry > 1:
                break
            self._files.pop()
            self._unflushed.remove(file)
            self._unlink_if_empty(file)
        self._last = self._files[-1] if self._files and not self._files[-1].full else None
        self._indexed_before = min(self._indexed_before, log_end - 1)
        self.flush()

    def cut_at_hole(self, lacks: Callable[[int, int], bool]) -> int | None:
        """Drop the files behind the first that is not followed by the next; from where on replay has to bring messages.

        `lacks` says whether the log has messages between two places that must be in the index.
        """
        # A later beginning is no hole, but where a file was left alone.
        ends = [-1 if self.skipped else self._files[0].begin_offset, *(file.end_offset for file in self._files)]
        begins = [*(file.begin_offset for file in self._files), 1 << 62]
        for count, (end, begin) in enumerate(zip(ends, begins, strict=True)):
            if lacks(end, begin):
                log.warning("%s: messages from offset %s on are indexed again: a file is missing", self._dir, end)
                while len(self._files) > count:
                    file = self._files.pop()
                    file.close()
                    self._fs.unlink(file.path)
                self._last = self._files[-1] if self._files and not self._files[-1].full else None
                if self._last is not None:
                    self._last.load_slots()
                self._indexed_before = end
                return end
        return None

    def close(self) -> None:
        """Close the files; what was not flushed is lost."""
        for file in self._files:
            file.close()
        self._files = []
        self._last = None
        self._close_retired()

    # Putting

    def put(self, topic: str, keys: Iterable[str], physical_offset: int, store_time_ms: int) -> None:
        """One entry per key (see `index_keys`). Calls come in the order of the log, also for messages without keys."""
        if physical_offset <= self._indexed_before:
            if physical_offset < self._indexed_before:
                return
            keys = self._missing(topic, keys, physical_offset)
        self._pending.put(topic, list(keys), physical_offset, store_time_ms)
        self._has_seen(store_time_ms)

    def replay(self, messages: list[Message]) -> None:
        """`put_messages` for what recovery found in the log, of which the files may have a part."""
        if messages[0][2] <= self._indexed_before:
            for _, queue, at, _, _, _, keys, uniq_key, store_time_ms, sys_flag, tags in messages:
                if at == self._indexed_before and sys_flag & ROLLBACK != ROLLBACK:
                    self.put(queue.topic, index_keys(uniq_key, keys, tags), at, store_time_ms)
            messages = [message for message in messages if message[2] > self._indexed_before]
        self.put_messages(messages)

    def put_messages(self, messages: list[Message]) -> None:
        """`put` for messages that were just appended."""
        if messages:
            self._pending.put_messages(messages)
            self._has_seen(messages[-1][8])

    def _has_seen(self, store_time_ms: int) -> None:
        if self.fault is None:
            self._seen_ms = store_time_ms
        if len(self._pending) >= PENDING_MAX:
            self.settle()

    def settle(self) -> None:
        """Bring what was put into the file, where `select` sees it; no disk is touched unless a file is full."""
        entries, self._waiting = self._waiting + self._pending.take(), []
        if self.fault is not None:
            return
        try:
            while entries:
                file = self._file_for(entries)
                if file is None:
                    self._waiting = entries
                    return
                entries = entries[file.add(entries) :]
        except OSError as error:
            self._seen_ms = min(self._seen_ms, entries[0][2] - 1)  # complete up to here, and no further
            self.fault = (
                f"{self._dir}: messages from offset {entries[0][1]} on are not indexed ({error.strerror}); "
                "free some disk space and restart to index them"
            )

    def _file_for(self, entries: list[Entry]) -> IndexFile | None:
        """The file that takes the next entry; None if they must wait until the disk has room for one."""
        if self._last is not None and not self._last.full:
            return self._last
        try:
            return self._roll()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or len(entries) * ENTRY.size > index_file.TAIL_SIZE_MAX:
                raise
            return None

    @property
    def has_files(self) -> bool:
        return bool(self._files)

    @property
    def incomplete(self) -> bool:
        """Whether something that was put is in no file, and will not be before there is room or a restart."""
        return self.fault is not None or bool(self._waiting)

    @property
    def _complete_ms(self) -> int:
        return min(self._seen_ms, self._waiting[0][2] - 1) if self._waiting else self._seen_ms

    def _missing(self, topic: str, keys: Iterable[str], physical_offset: int) -> list[str]:
        """Of the last message in the files, the keys that did not get there before the kill."""
        missing = []
        for key in keys:
            found: list[int] = []
            key_hash = positive_hash(key, topic_hash(topic))
            for file in self._files[-2:]:
                file.select(found, key_hash, self._config.max_index_num, 0, 1 << 62)
            if physical_offset not in found:
                missing.append(key)
        return missing

    def _roll(self) -> IndexFile:
        """The next file. It starts with the end of the one before, as Java's does."""
        before = self._files[-1] if self._files else None
        time_ms = self._clock.now_ms()
        name = file_name(time_ms)
        while before is not None and name <= before.path.rpartition("/")[2]:
            name = f"{int(before.path.rpartition('/')[2]) + 1:017d}"  # two in one millisecond, or the clock went back
        file = self._file(name)
        try:
            file.create()
        except OSError:
            file.close()
            with suppress(OSError):
                self._fs.unlink(file.path)
            raise
        if before is not None:
            file.begin_behind(before)
            if before not in self._unflushed:
                self._unflushed.append(before)
        self._new_names = True
        self._files.append(file)
        self._last = file
        return file

    # Flushing

    def prepare(self) -> IndexFlush | None:
        """Copy what the disk lacks; None if that is nothing, or a flush is under way."""
        if self._flushing:
            return None
        self.settle()
        files = [*self._unflushed, self._last] if self._last is not None else self._unflushed
        writes = [write for file in dict.fromkeys(files) if (write := file.changes()) is not None]
        if not writes and self.fault is None:
            self.flushed_store_time_ms = max(self.flushed_store_time_ms, self._complete_ms)
        if not writes:
            return None
        self._flushing = True
        flush = IndexFlush(self._fs, self._dir if self._new_names else None, writes, self._complete_ms)
        self._new_names = False
        return flush

    def finish(self, flush: IndexFlush, *, failed: bool = False) -> None:
        """Let go of what a flush has written, or take it back for the next one."""
        self._flushing = False
        if failed:
            self._new_names = self._new_names or flush.new_names_in is not None
            for write in flush.writes:
                write.file.not_written(write)
            return
        for write in flush.writes:
            write.file.written(write)
            if write.file in self._unflushed and not write.file.dirty:
                self._unflushed.remove(write.file)
        self.flushed_store_time_ms = max(self.flushed_store_time_ms, flush.store_time_ms)
        self._close_retired()

    def flush(self) -> None:
        """Everything put so far is on disk when this returns (unless a flush runs in another thread)."""
        flush = self.prepare()
        if flush is None:
            return
        try:
            flush.run()
        except OSError:
            self.finish(flush, failed=True)
            raise
        self.finish(flush)

    # Asking and deleting

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None = None
    ) -> list[int]:
        """CommitLog offsets of messages that may carry the key, newest first; from the thread that puts."""
        self.settle()
        return self.search(topic, key, max_count, begin_ms, end_ms, index_type)

    def search(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None = None
    ) -> list[int]:
        """As `query`, from any thread; finds what is settled."""
        text = f"{topic}#{TAG_PREFIX if index_type == TAG_TYPE else ''}{key}"
        key_hash = positive_hash(text)
        max_count = min(max_count, self._config.max_msgs_num_batch)
        found: list[int] = []
        with self._readers_lock:
            self._readers += 1
            files = self._files[::-1]
        try:
            for file in files:
                if file.time_matches(begin_ms, end_ms):
                    file.select(found, key_hash, max_count, begin_ms, end_ms)
                if file.begin_ms < begin_ms or len(found) >= max_count:
                    break
        finally:
            with self._readers_lock:
                self._readers -= 1
        return found

    @property
    def last_update(self) -> tuple[int, int]:
        """Store time and CommitLog offset of the newest entry, as a query's answer carries them."""
        return (self._files[-1].end_ms, self._files[-1].end_offset) if self._files else (0, 0)

    @property
    def total_size(self) -> int:
        return sum(file.size for file in self._files)

    def delete_before(self, min_physical_offset: int) -> list[str]:
        """Delete files whose messages have all left the log, never the last; the paths that went."""
        self.settle()
        count = 0
        while count < len(self._files) - 1 and self._files[count].end_offset < min_physical_offset:
            count += 1
        with self._readers_lock:
            gone, self._files = self._files[:count], self._files[count:]
            self._retired += gone
        self._unflushed = [file for file in self._unflushed if file not in gone]
        for file in gone:
            self._fs.unlink(file.path)
        self._close_retired()
        return [file.path for file in gone]

    def _close_retired(self) -> None:
        with self._readers_lock:
            if self._readers == 0 and not self._flushing:
                for file in self._retired:
                    file.close()
                self._retired = []
