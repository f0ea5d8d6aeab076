"""The CommitLog: every message of the broker, in the order of arrival, over preallocated segments.

    min_offset ≤ flushed ≤ written ≤ end         end counts what is encoded and still in `parts`

The checkpoint vouches for `flushed_whole`: `flushed` without the beginning of a record, where another log sent no more.

Appending is `append.py`'s: it puts encoded bytes into `parts` and moves `end`. `write` hands all of it to the
system in one call, `flush` makes it durable. Readers and dispatch see up to `confirm_offset`: `flushed` under
SYNC_FLUSH, else `written`.

Threads: everything on the owner's thread, but `flush`, which may run in a worker beside it.
Invariants: store times never decrease; any failed sync or write fences the log for good, for nobody can say
afterwards what is on the disk; a disk too full for a new segment only refuses the message and heals.

Mirrors: CommitLog, MappedFileQueue.
"""

from __future__ import annotations

import contextlib
import copy
import errno
from collections import OrderedDict
from collections.abc import Iterator
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple

from cometmq.clock import Clock
from cometmq.errors import MessageRefused, StoreError, StoreNotWritable
from cometmq.store.config import StoreConfig
from cometmq.store.fs import Buffer, FileSystem, write_all, write_parts
from cometmq.store.segment import Segment, load_starts, segment_path
from cometmq.wire.record import BLANK_SIZE, MAGIC_V1, MAGIC_V2, encode_blank

Range = tuple[int, int]  # offset, size

VIEWS_MAX: Final = 64  # maps of segments kept at once
JOIN_SIZE_MAX: Final = 1 << 20  # below it one joined pwrite beats many small pieces
DISK_FULL_RETRY_MS: Final = 1000

_PIECE: Final = 1 << 20
_STEPS: Final = 4096  # of a segment, in which it is looked for zeros
_STEP_MIN: Final = 512
_SYS_FLAG: Final = Struct(">i")
_HEAD: Final = Struct(">iI4xi4xqq")
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_LONG: Final = Struct(">q")


class Torn(NamedTuple):
    """Bytes that were cut off: `path` held so many behind byte `at`."""

    path: str
    at: int
    size: int


class CommitLog:
    """The segments, the bytes not yet written, and the three offsets."""

    def __init__(self, fs: FileSystem, config: StoreConfig, clock: Clock) -> None:
        self._fs = fs
        self._clock = clock
        self.folder = config.commit_log_dir
        self.segment_size = config.mapped_file_size_commit_log
        self._sync_flush = config.sync_flush
        self.segments: dict[int, Segment] = {}
        self._spare: Segment | None = None
        self._views: OrderedDict[int, memoryview] = OrderedDict()
        self._flush_lock = Lock()
        self._create_lock = Lock()
        self._disk_full_at_ms: int | None = None
        self.min_offset = 0
        self.end = 0
        self.limit = 0  # end of the segment that `end` is in
        self.written = 0
        self.flushed = 0
        self.held = 0  # bytes at the end that only begin a record
        self.written_whole = 0
        self.flushed_whole = 0
        self.last_store_time_ms = 0
        self.written_store_time_ms = 0
        self.flushed_store_time_ms = 0
        self.parts: list[Buffer] = []
        self._sealed: list[tuple[Segment, int, list[Buffer], int]] = []
        self._parts_at = 0
        self.vouched_segment = -1  # number of the segment up to which the checkpoint vouches
        self.fault: str | None = None
        self.refusal: str | None = None  # why no message is taken: the fault, a disk nearly full, or a master has them
        self._stands_by: str | None = None
        self._nearly_full: str | None = None

    # Opening

    def load(self) -> None:
        """Find the segments; where the log ends is for recovery to say, with `set_end`."""
        self._fs.make_dirs(self.folder)
        for start in load_starts(self._fs, self.folder, self.segment_size, "mappedFileSizeCommitLog"):
            self.segments[start] = Segment(segment_path(self.folder, start), start, self.segment_size)
        self.min_offset = min(self.segments, default=0)
        for start in range(self.min_offset, max(self.segments, default=0), self.segment_size):
            if start not in self.segments:
                raise StoreError(
                    f"{segment_path(self.folder, start)} is missing between files that are there: restore it, "
                    "or move those before it away to go on without them"
                )

    def set_end(self, end: int, last_store_time_ms: int, *, cut: bool = True) -> list[Torn]:
        """The log ends here: cut what is behind, durably, unless nothing may be touched, and go on from here.

        Returns what was cut."""
        segment = self.segment_of(end)
        torn = self._cut(end, segment) if cut else []
        self.end = self.written = self.flushed = self._parts_at = end
        self.held, self.written_whole, self.flushed_whole = 0, end, end
        self.limit = segment.end if segment is not None else end
        if segment is not None and segment.start == end:
            segment.unnamed = True  # who made it may have died before the flush that would have synced its name
        self.last_store_time_ms = self.written_store_time_ms = self.flushed_store_time_ms = last_store_time_ms
        return torn

    def doubt_from(self, offset: int) -> None:
        """What the process that died wrote from here on may not be on the disk: the next flush takes it along."""
        self.flushed = min(self.flushed, offset)
        self.flushed_whole = min(self.flushed_whole, offset)
        self.flushed_store_time_ms = 0
        for segment in self.segments.values():
            if segment.end > offset:
                segment.unnamed = True

    def _cut(self, end: int, segment: Segment | None) -> list[Torn]:
        torn: list[Torn] = []
        later = [start for start in self.segments if start > end]
        for start in sorted(later, reverse=True):
            size = 0
            for at, piece in self.data_pieces(start, 0, _PIECE, 0):
                size = max(size, at + len(piece.rstrip(b"\0")) if any(piece) else 0)
            if size:
                torn.append(Torn(self.segments[start].path, 0, size))
            self._fs.unlink(self.drop_segment(start))
        if segment is not None:
            segment.open(self._fs)
            size = self._fs.zero(segment.fd, end - segment.start, self.segment_size)
            if size:
                self._fs.sync(segment.fd)
                torn.append(Torn(segment.path, end - segment.start, size))
        if later:
            self._fs.fsync_dir(self.folder)
        return torn[::-1]

    def data_pieces(self, start: int, at: int, size: int, overlap: int) -> Iterator[tuple[int, bytes]]:
        """Where the segment at `start` holds data from byte `at` on, and the data, in pieces that overlap.

        Read, not mapped: behind the log's end a map would fill the memory with what the system reads ahead.
        """
        fd = self._fs.open(self.segments[start].path, read_only=True)
        try:
            for first, stop in list(self._fs.data_ranges(fd, at, self.segment_size)):
                for piece_at in range(first, stop, size):
                    yield piece_at, self._fs.pread(fd, min(size, stop - piece_at) + overlap, piece_at)
        finally:
            self._fs.close(fd)

    def bytes_from(self, begin: int) -> int:
        """About how many bytes there are to read: space that was made behind the messages does not count.

        Halving finds where the last file's zeros begin. A message of zeros may mislead it, so only a bar may ask.
        """
        start = max(self.segments, default=0)
        step = max(self.segment_size // _STEPS, _STEP_MIN)
        low, high = 0, -(-self.segment_size // step)
        fd = self._fs.open(self.segments[start].path, read_only=True)
        try:
            while low < high:
                middle = (low + high) // 2
                if any(self._fs.pread(fd, step, middle * step)):
                    low = middle + 1
                else:
                    high = middle
        finally:
            self._fs.close(fd)
        return max(start + min(low * step, self.segment_size) - begin, 0)

    def record_head(self, offset: int) -> tuple[int, int, int] | None:
        """Size, queue id and queue offset of what stands at `offset`, zeros if it is no record; None before the log."""
        if offset < self.min_offset:
            return None
        segment = self.segment_of(offset)
        if segment is None or segment.end - offset < _HEAD.size:
            return 0, 0, 0
        size, magic, queue_id, queue_offset, physical = _HEAD.unpack_from(
            self.view_of(segment.start), offset - segment.start
        )
        return (size, queue_id, queue_offset) if physical == offset and magic in _MAGICS else (0, 0, 0)

    def time_at(self, offset: int) -> int | None:
        """Store time of the record that stands at `offset`, visible or not; None if none does."""
        head = self.record_head(offset)
        segment = self.segment_of(offset)
        if not head or not head[0] or segment is None or segment.end - offset < head[0]:
            return None
        view, at = self.view_of(segment.start), offset - segment.start
        wide = _SYS_FLAG.unpack_from(view, at + 36)[0] & 0x10
        time_ms: int = _LONG.unpack_from(view, at + (68 if wide else 56))[0]
        return time_ms

    def segment_start(self, offset: int) -> int:
        return offset - offset % self.segment_size

    def segment_of(self, offset: int) -> Segment | None:
        return self.segments.get(offset - offset % self.segment_size)

    # Appending

    def roll(self, size: int) -> None:
        """Go to the next segment, for a record of `size` bytes does not fit; the rest becomes a blank record."""
        if size + BLANK_SIZE > self.segment_size:
            raise MessageRefused(
                f"the message takes {size} bytes, and a segment has {self.segment_size} "
                "(mappedFileSizeCommitLog): send it smaller"
            )
        with self._create_lock:  # to the end: `prepare_spare` looks at `limit`, and must not make this one again
            segment = self._next_segment()
            if self.end < self.limit:
                self.parts.append(encode_blank(self.limit - self.end))
            self._seal()
            self.segments[segment.start] = segment
            if len(self.segments) == 1:
                self.min_offset = segment.start
            self.end = self._parts_at = segment.start
            self.limit = segment.end

    # Following another log

    def stand_by(self, why: str) -> None:
        """Take no messages but those of another log, as raw bytes."""
        self._stands_by = why
        self.refusal = self.refusal or why

    def begin_at(self, offset: int) -> None:
        """An empty log begins at `offset`, the start of a segment."""
        for start in list(self.segments):
            self._fs.unlink(self.drop_segment(start))
        with self._flush_lock:
            self.end = self.limit = self.written = self.flushed = self._parts_at = self.min_offset = offset

    def append_raw(self, data: bytes, held: int) -> None:
        """Bytes of another log; they fit into the segment. The last `held` bytes only begin a record."""
        self.parts.append(data)
        self.end += len(data)
        self.held = held

    def cut(self, end: int) -> None:
        """Cut the last bytes, within one segment, off a log of which everything is flushed."""
        with self._flush_lock:
            self.set_end(end, self.last_store_time_ms)

    def _seal(self) -> None:
        if self.parts:
            self._sealed.append((self.segments[self.limit - self.segment_size], self._parts_at, self.parts, self.limit))
            self.parts = []

    def _next_segment(self) -> Segment:
        spare, self._spare = self._spare, None
        return self._create_segment() if spare is None else spare

    def _create_segment(self) -> Segment:
        now = self._clock.monotonic_ms()
        if self._disk_full_at_ms is not None and now - self._disk_full_at_ms < DISK_FULL_RETRY_MS:
            raise StoreNotWritable(self._disk_full_text())
        try:
            segment = Segment.create(self._fs, self.folder, self.limit, self.segment_size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                self.fence(f"{self.folder}: a new segment cannot be created: {error.strerror}")
                raise StoreNotWritable(self.fault) from error
            self._disk_full_at_ms = now
            raise StoreNotWritable(self._disk_full_text()) from None
        self._disk_full_at_ms = None
        return segment

    def _disk_full_text(self) -> str:
        return (
            f"the disk is full: {self.folder} has no room for the next segment of {self.segment_size} bytes; "
            "free space or lower fileReservedTime, and sending works again"
        )

    @property
    def disk_full(self) -> str | None:
        """Why the disk has no room, as a sentence: the last try to make a segment found none, or it is nearly full."""
        return self._nearly_full if self._disk_full_at_ms is None else self._disk_full_text()

    def prepare_spare(self) -> None:
        """Create the next segment early, off the hot path, once this one is nearly full. Any thread."""
        with self._create_lock:
            start = self.limit
            if self._spare is None and start and start - self.end < self.segment_size // 8 and self.fault is None:
                # `roll` tries again and says what is wrong
                with contextlib.suppress(OSError):
                    self._spare = Segment.create(self._fs, self.folder, start, self.segment_size)

    # Writing and flushing

    def write(self) -> int:
        """Everything appended goes to the system; returns `written`."""
        if self.fault is not None:
            raise StoreNotWritable(self.fault)
        if not self.parts and not self._sealed:
            return self.written
        try:
            for segment, at, parts, end in self._sealed:
                self._write_parts(segment, at, parts)
                self.written = end
            self._sealed.clear()
            if self.parts:
                self._write_parts(self.segments[self.limit - self.segment_size], self._parts_at, self.parts)
                self.parts = []
        except OSError as error:
            self.fence(f"{self.folder}: a write at offset {self.written} failed: {error.strerror}")
            raise StoreNotWritable(self.fault) from error
        self.written = self._parts_at = self.end
        self.written_whole = self.end - self.held
        self.written_store_time_ms = self.last_store_time_ms
        return self.end

    def _write_parts(self, segment: Segment, at: int, parts: list[Buffer]) -> None:
        segment.open(self._fs)
        if self.end - at < JOIN_SIZE_MAX:
            write_all(self._fs, segment.fd, b"".join(parts), at - segment.start)
        else:
            write_parts(self._fs, segment.fd, parts, at - segment.start)

    def flush(self) -> int:
        """Everything written goes to the disk; returns `flushed`. One caller at a time does the work."""
        with self._flush_lock:
            if self.fault is not None:
                raise StoreNotWritable(self.fault)
            # These first: a write that ends in between must not make them younger than what is flushed.
            store_time_ms, whole = self.written_store_time_ms, self.written_whole
            target, at = self.written, self.flushed
            try:
                while at < target:
                    segment = self.segments[at - at % self.segment_size]
                    segment.open(self._fs)
                    self._fs.sync(segment.fd)
                    if segment.unnamed:
                        self._fs.fsync_dir(self.folder)
                        segment.unnamed = False
                    at = segment.end
                    if at <= target:
                        segment.close(self._fs)
            except OSError as error:
                self.fence(
                    f"{self.folder}: a sync at offset {at} failed ({error.strerror}); what was not on the disk by "
                    "then may be lost (nothing of it was acknowledged under SYNC_FLUSH). Check the disk, then restart "
                    "the broker"
                )
                raise StoreNotWritable(self.fault) from error
            self.flushed, self.flushed_whole = target, whole
            self.flushed_store_time_ms = store_time_ms
            return target

    def fence(self, why: str) -> None:
        """No more writes until the store is opened again."""
        if self.fault is None:
            self.fault = self.refusal = why

    def mark_disk(self, why_full: str | None) -> None:
        """Take no messages while the disk is nearly full; None takes them again."""
        self._nearly_full = why_full
        self.refusal = self.fault or why_full or self._stands_by

    @property
    def confirm_offset(self) -> int:
        return self.flushed if self._sync_flush else self.written

    # Reading

    def view_of(self, start: int) -> memoryview:
        """The map of one segment; at most `VIEWS_MAX` are kept."""
        views = self._views
        view = views.get(start)
        if view is None:
            if len(views) >= VIEWS_MAX:
                views.popitem(last=False)
            view = views[start] = self._fs.map_read(self.segments[start].path)
        else:
            views.move_to_end(start)
        return view

    def reading_copy(self) -> CommitLog:
        """This log as it is now, with maps of its own: for reading in a thread."""
        other = copy.copy(self)
        other.segments = dict(self.segments)
        other._views = OrderedDict()
        return other

    def slice(self, offset: int, size: int) -> memoryview | None:
        """`size` visible bytes at `offset` within one segment, or None."""
        at = offset % self.segment_size
        start = offset - at
        if offset < self.min_offset or size < 0 or at + size > self.segment_size or start not in self.segments:
            return None
        if offset + size > self.confirm_offset:
            return None
        return self.view_of(start)[at : at + size]

    def store_time_ms(self, offset: int, size: int) -> int:
        """Store time of the record at `offset`; -1 if it is not there."""
        record = self.slice(offset, size)
        if record is None or size < 76:
            return -1
        wide = _SYS_FLAG.unpack_from(record, 36)[0] & 0x10
        time_ms: int = _LONG.unpack_from(record, 68 if wide else 56)[0]
        return time_ms

    def segment_end(self, offset: int) -> int:
        """Where the segment of `offset` ends."""
        return offset + self.segment_size - offset % self.segment_size

    # Deleting

    def drop_segment(self, start: int) -> str:
        """Forget a segment; returns its file, which the caller removes. Who holds a slice of it can go on reading."""
        with self._flush_lock:
            segment = self.segments.pop(start)
            segment.close(self._fs)
        self._views.pop(start, None)
        self.min_offset = min(self.segments, default=self.limit)
        return segment.path

    def close(self) -> None:
        """Give back descriptors and maps; `write` and `flush` come before."""
        with self._flush_lock:
            for segment in self.segments.values():
                segment.close(self._fs)
        if self._spare is not None:
            self._spare.close(self._fs)
            self._spare = None
        self._views.clear()
