"""All ConsumeQueues: found on disk, opened, read, written, deleted.

Reads of the tail come from memory, older units from the files through a bounded set of descriptors, so that ten
thousand queues need few. Writing has three steps, so that the disk never stops the owner's thread:

    job = table.prepare(sync)     owner's thread: copies what is new
    job.run()                     any thread: writes it, and syncs it if asked
    table.finish(job)             owner's thread: trims the tails

Mirrors: ConsumeQueueStore.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from struct import Struct
from threading import RLock
from typing import Final

from cometmq.errors import StoreError
from cometmq.model.names import is_system_topic
from cometmq.store.consume_queue import UNIT, ConsumeQueue
from cometmq.store.fs import FileSystem, write_all
from cometmq.store.segment import load_starts
from cometmq.store.syncing import sync_file, sync_names

DESCRIPTORS_MAX: Final = 256
TAIL_KEPT: Final = 64  # written units that stay in memory for the readers at the end of a queue
NO_UNITS: Final = b""


class QueueTable:
    """The queues by (topic, queue id). All have units of one layout, which begins with physical offset and size."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        file_size: int,
        *,
        setting: str,
        layout: Struct = UNIT,
        mark: tuple[int, int] | None = None,
    ) -> None:
        self._fs = fs
        self.folder = folder
        self.file_size = file_size
        self.layout = layout
        self.mark = mark  # which late field of a unit has always which value, so that a torn one can be told
        self._unit_size = unit_size = layout.size
        self._setting = setting
        if file_size % unit_size or file_size <= 0:
            raise StoreError(f"{setting} is {file_size}: make it a multiple of {unit_size}")
        self.queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.files_lock = RLock()  # held while queue files are written or removed
        self.too_short: dict[ConsumeQueue, dict[int, int]] = {}  # by first unit, how many bytes such a file has
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        # Written since the last sync; touched only by the one `QueueWrite` that runs.
        self.unsynced_files: set[str] = set()
        self.unsynced_folders: set[str] = set()
        self.corrected_files: deque[str] = deque()  # for the next sync; the owner adds, the one that runs takes

    def load(self) -> None:
        """Find the queues on disk; where each ends is for recovery to say."""
        self._fs.make_dirs(self.folder)
        for topic in self._fs.list_dir(self.folder):
            for name in (
                self._fs.list_dir(f"{self.folder}/{topic}") if self._fs.is_dir(f"{self.folder}/{topic}") else ()
            ):
                if name.isdecimal():
                    self.open(topic, int(name))

    def starts(self, queue: ConsumeQueue) -> list[int]:
        """First units of a queue's files. Those that are too short, though others are not, are left out and noted."""
        short = self.too_short[queue] = {}

        def is_damaged(start: int, length: int) -> bool:
            if length < self.file_size and self._has_file_of_right_size():
                short[start // self._unit_size] = length
            return start // self._unit_size in short

        found = load_starts(self._fs, queue.folder, self.file_size, self._setting, is_damaged)
        return [start // self._unit_size for start in found]

    def _has_file_of_right_size(self) -> bool:
        """Whether any file of any queue tells that the setting is right."""
        sizes = (
            self._fs.size(f"{queue.folder}/{name}")
            for queue in self.queues.values()
            for name in self._fs.list_dir(queue.folder)
        )
        return self.file_size in sizes

    def open(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if it is new; its files come with its first write."""
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            folder = f"{self.folder}/{topic}/{queue_id}"
            queue = ConsumeQueue(topic, queue_id, folder, self.file_size, self._unit_size)
            self.queues[topic, queue_id] = queue
        return queue

    # Reading

    def units(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Bytes of up to `count` units from `offset` on, all of one file; empty where there are none."""
        end = min(offset + count, queue.max_offset, queue.file_end(offset))
        if offset < queue.first_offset or offset >= end:
            return NO_UNITS
        tail_offset, unit_size = queue.tail_offset, self._unit_size
        if offset >= tail_offset:
            at = (offset - tail_offset) * unit_size
            return bytes(queue.tail[at : at + (end - offset) * unit_size])
        data = self.file_units(queue, offset, min(end, tail_offset) - offset)
        if end > tail_offset:
            data += queue.tail[: (end - tail_offset) * unit_size]
        return data

    def unit(self, queue: ConsumeQueue, offset: int) -> tuple[int, ...] | None:
        """Physical offset, size, tags code, and what else the layout has, of one message."""
        data = self.units(queue, offset, 1)
        return self.layout.unpack(data) if len(data) == self._unit_size else None

    def file_units(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Units as the file has them."""
        path = queue.path_of(offset)
        descriptors = self._descriptors
        fd = descriptors.get(path, -1)
        if fd < 0:
            if len(descriptors) >= DESCRIPTORS_MAX:
                self._fs.close(descriptors.popitem(last=False)[1])
            try:
                fd = descriptors[path] = self._fs.open(path, read_only=True)
            except FileNotFoundError:
                return NO_UNITS
        else:
            descriptors.move_to_end(path)
        unit_size = self._unit_size
        data = self._fs.pread(fd, count * unit_size, offset % queue.file_units * unit_size)
        return data[: len(data) // unit_size * unit_size]

    def _forget_descriptors(self, folder: str) -> None:
        for path in [path for path in self._descriptors if path.startswith(f"{folder}/")]:
            self._fs.close(self._descriptors.pop(path))

    # Writing

    def put(self, queue: ConsumeQueue, physical_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Add the unit of a message; False if it is there already.

        Dispatch has its own short form of the common case; this one also knows what replaying a log brings.
        """
        if physical_offset + size <= queue.max_physical:
            return False
        if queue_offset < queue.max_offset:
            # A later message with a smaller offset: the topic was deleted and made again.
            self.cut(queue, queue_offset)
        return queue.put(physical_offset, size, tags_code, queue_offset)

    def prepare(self, *, sync: bool) -> QueueWrite:
        """What the files lack."""
        pieces: list[Piece] = []
        for queue in self.queues.values():
            if queue.dirty:
                queue.dirty = False
                pieces.extend(_pieces(queue))
        return QueueWrite(self._fs, self, pieces, sync=sync)

    def first_unwritten(self) -> int:
        """Where in the log the first message stands whose unit is in no file yet; if there is none, behind its end."""
        unwritten = (queue for queue in self.queues.values() if queue.written_offset < queue.max_offset)
        places = (self.unit(queue, queue.written_offset) for queue in unwritten)
        return min((place[0] for place in places if place is not None), default=1 << 63)

    def doubt_from(self, queue: ConsumeQueue, physical_offset: int) -> None:
        """Units of messages from here on may not be on the disk, for who wrote them died: the next sync takes them."""
        self.unsynced_folders.update((queue.folder, queue.folder.rpartition("/")[0], self.folder))
        for start in reversed(self.starts(queue)):
            self.unsynced_files.add(queue.path_of(start))
            unit = self.unit(queue, start)
            if unit is not None and unit[0] < physical_offset:
                break

    def finish(self, job: QueueWrite) -> None:
        """Take over what a finished job wrote; what it could not write stays in the tails."""
        for queue, offset, data in job.pieces[: job.done]:
            end = offset + len(data) // self._unit_size
            if queue.alive and queue.written_offset == offset and end <= queue.max_offset:
                queue.written_offset = end
                keep_from = end - TAIL_KEPT
                if keep_from > queue.tail_offset:
                    del queue.tail[: (keep_from - queue.tail_offset) * self._unit_size]
                    queue.tail_offset = keep_from
        for queue, _offset, _data in job.pieces[job.done :]:
            queue.dirty = queue.alive

    def correct(self, queue: ConsumeQueue, offset: int, unit: bytes) -> None:
        """Write one unit over another: at once, and to the disk with the next sync."""
        if offset >= queue.tail_offset:
            at = (offset - queue.tail_offset) * self._unit_size
            queue.tail[at : at + self._unit_size] = unit
        if offset >= queue.written_offset:
            return
        path = queue.path_of(offset)
        with self.files_lock:
            fd = self._fs.open(path)
            try:
                write_all(self._fs, fd, unit, offset % queue.file_units * self._unit_size)
            finally:
                self._fs.close(fd)
        self.corrected_files.append(path)

    # Removing

    def cut(self, queue: ConsumeQueue, offset: int) -> None:
        """Drop the units from `offset` on."""
        with self.files_lock:
            self._forget_descriptors(queue.folder)
            queue.cut(self._fs, offset)
        queue.dirty = bool(queue.tail)

    def delete_topic(self, topic: str) -> int:
        """Drop all queues of a topic with their files; returns how many there were."""
        gone = [key for key in self.queues if key[0] == topic]
        for key in gone:
            self._delete(*key)
        self._fs.remove_dir(f"{self.folder}/{topic}")
        return len(gone)

    def _delete(self, topic: str, queue_id: int) -> None:
        with self.files_lock:
            queue = self.queues.pop((topic, queue_id))
            queue.alive = False
            self._forget_descriptors(queue.folder)
            queue.drop_files(self._fs)

    def delete_before(self, min_physical: int) -> list[str]:
        """Drop files whose last unit points before the log's first byte, and move the first offsets up."""
        removed: list[str] = []
        for queue in self.queues.values():
            while queue.file_end(queue.first_offset) < queue.max_offset:
                end = queue.file_end(queue.first_offset)
                if queue.written_offset < end or self.unit(queue, end - 1) is None:
                    break
                if not self._is_before(queue, end - 1, min_physical):
                    break
                path = queue.path_of(queue.first_offset)
                with self.files_lock:
                    if path in self._descriptors:
                        self._fs.close(self._descriptors.pop(path))
                    self._fs.unlink(path)
                removed.append(path)
                queue.first_offset = queue.file_end(queue.first_offset)
            self.correct_min_offset(queue, min_physical)
        return removed

    def delete_expired(self, min_physical: int) -> int:
        """Drop whole queues of which no message is left in the log, but those of the system; returns how many."""
        gone = [
            key
            for key, queue in self.queues.items()
            if not is_system_topic(key[0])
            and 0 <= queue.max_physical < min_physical
            and queue.next_offset == queue.max_offset  # else a message is under way to it
        ]
        for topic, queue_id in gone:
            self._delete(topic, queue_id)
            self._fs.remove_dir(f"{self.folder}/{topic}")
        return len(gone)

    def correct_min_offset(self, queue: ConsumeQueue, min_physical: int) -> None:
        """`min_offset` is the first unit that points into the log; all gone, it is the end."""
        low, high = max(queue.min_offset, queue.first_offset), queue.max_offset
        while low < high:
            middle = (low + high) // 2
            if self._is_before(queue, middle, min_physical):
                low = middle + 1
            else:
                high = middle
        queue.min_offset = low

    def _is_before(self, queue: ConsumeQueue, offset: int, min_physical: int) -> bool:
        """Whether a unit points before the log, and so does the one before it: one alone may be damaged."""
        for one in (offset, offset - 1) if offset > queue.first_offset else (offset,):
            unit = self.unit(queue, one)
            if unit is not None and not 0 <= unit[0] < min_physical:
                return False
        return True

    def close(self) -> None:
        for fd in self._descriptors.values():
            self._fs.close(fd)
        self._descriptors.clear()


Piece = tuple[ConsumeQueue, int, bytes]  # queue, first unit, units of one file


def _pieces(queue: ConsumeQueue) -> Iterator[Piece]:
    offset, unit_size = queue.written_offset, queue.unit_size
    while offset < queue.max_offset:
        end = min(queue.file_end(offset), queue.max_offset)
        at = (offset - queue.tail_offset) * unit_size
        yield queue, offset, bytes(queue.tail[at : at + (end - offset) * unit_size])
        offset = end


class QueueWrite:
    """One round of writing queue files."""

    def __init__(self, fs: FileSystem, table: QueueTable, pieces: list[Piece], *, sync: bool) -> None:
        self._fs = fs
        self._table = table
        self.pieces = pieces
        self.sync = sync
        self.done = 0

    @property
    def size(self) -> int:
        return sum(len(data) for _queue, _offset, data in self.pieces)

    def run(self) -> None:
        """Write all pieces; an `OSError` leaves the rest for the next round."""
        for queue, offset, data in self.pieces:
            with self._table.files_lock:
                if queue.alive:
                    self._write(queue, offset, data)
            self.done += 1
        if self.sync:
            self._sync()

    def _write(self, queue: ConsumeQueue, offset: int, data: bytes) -> None:
        path = queue.path_of(offset)
        try:
            fd = self._fs.open(path)
        except FileNotFoundError:
            fd = self._create(queue, path)
        try:
            write_all(self._fs, fd, data, offset % queue.file_units * queue.unit_size)
        finally:
            self._fs.close(fd)
        self._table.unsynced_files.add(path)

    def _create(self, queue: ConsumeQueue, path: str) -> int:
        """A new file of its full size; a disk too full for it leaves nothing behind."""
        self._fs.make_dirs(queue.folder)
        fd = self._fs.open(path, create=True)
        try:
            self._fs.truncate(fd, self._table.file_size)
        except OSError:
            self._fs.close(fd)
            self._fs.unlink(path)
            raise
        topic_folder = queue.folder.rpartition("/")[0]
        self._table.unsynced_folders.update((queue.folder, topic_folder, self._table.folder))
        return fd

    def _sync(self) -> None:
        while self._table.corrected_files:
            self._table.unsynced_files.add(self._table.corrected_files.popleft())
        for path in sorted(self._table.unsynced_files):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                fd = self._fs.open(path)
                try:
                    sync_file(self._fs, fd)
                finally:
                    self._fs.close(fd)
        for folder in sorted(self._table.unsynced_folders):
            with contextlib.suppress(FileNotFoundError):
                sync_names(self._fs, folder)
        self._table.unsynced_files.clear()
        self._table.unsynced_folders.clear()
