"""One index file: a hash table from key to CommitLog offsets, of fixed size, filled from front to back.

    header  40    begin_ms 8 | end_ms 8 | begin_offset 8 | end_offset 8 | slots used 4 | next entry 4
    slots    4 *  max_hash_slot_num     number of the newest entry whose hash falls here; 0 is none
    entries 20 *  max_index_num         hash 4 | CommitLog offset 8 | seconds since begin_ms 4 | older entry 4

Big-endian. Entry 0 is never used, so a file holds one entry less than it has room for.

A put touches memory only: the slot table is held in anonymous memory (resident as far as it is used) and new
entries wait in a buffer. `changes` copies what is not on disk into an `IndexWrite`, which any thread may carry
out while puts go on; `written` then lets go of it. Order on disk: entries and slots, sync, header, sync. So
what a header counts is there, whatever happens; slots that run ahead of the header are found and set right by
`index_repair` after a kill.

Mirrors: IndexFile, IndexHeader.
"""

from __future__ import annotations

from dataclasses import dataclass
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct
from threading import Lock
from typing import Final

from cometmq.store.fs import FileSystem, write_all

HEADER: Final = Struct(">qqqqii")
SLOT: Final = Struct(">i")
ENTRY: Final = Struct(">iqii")
SECONDS_MAX: Final = 0x7FFF_FFFF
SPILL_SIZE: Final = 1 << 20  # entries beyond this are written without waiting for the next flush
TAIL_SIZE_MAX: Final = 16 << 20  # on a disk that takes nothing: where memory ends, and indexing with it

_PAGE_BITS: Final = 12
_CHUNK_SIZE: Final = 1 << 20
_BLOCK_ENTRIES: Final = 3_276  # read ahead of a chain in steps of about 64 KiB
_BLOCKS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class IndexWrite:
    """Bytes of one file on their way to the disk; `header` counts exactly what `parts` complete."""

    file: IndexFile
    parts: list[tuple[int, bytes]]
    header: bytes
    next_entry: int

    def run(self) -> None:
        """Write and sync; from any thread."""
        fs, fd = self.file.fs, self.file.fd
        for offset, data in self.parts:
            write_all(fs, fd, data, offset)
        fs.sync(fd)
        write_all(fs, fd, self.header, 0)
        fs.sync(fd)


class IndexFile:
    """Puts come from one thread; `select` may run in another."""

    def __init__(self, fs: FileSystem, path: str, slot_count: int, entry_count: int) -> None:
        self.fs = fs
        self.path = path
        self.slot_count = slot_count
        self.entry_count = entry_count
        self.entries_at = HEADER.size + slot_count * SLOT.size
        self.size = self.entries_at + entry_count * ENTRY.size
        self.fd = -1
        self.begin_ms = 0
        self.end_ms = 0
        self.begin_offset = 0
        self.end_offset = 0
        self.slots_used = 0
        self.next_entry = 1
        self._image: mmap | None = None  # header room and slots, at their places in the file
        self._dirty: set[int] = set()
        self._tail = bytearray()
        self._tail_entry = 1
        self._flushed_header = b""
        self._lock = Lock()  # between those who shorten the tail and those who read it

    # Opening and closing

    def create(self) -> None:
        """Make the file, sparse."""
        self.fd = self.fs.open(self.path, create=True)
        self.fs.truncate(self.fd, self.size)
        self._image = self._blank_image()

    def open(self) -> None:
        """Open a file that exists and read its header."""
        self.fd = self.fs.open(self.path)
        data = self.fs.pread(self.fd, HEADER.size, 0)
        (self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.slots_used, self.next_entry) = (
            HEADER.unpack(data)
        )
        self.next_entry = min(max(self.next_entry, 1), self.entry_count)
        self._tail_entry = self.next_entry
        self._flushed_header = self.header()

    def read_slots(self) -> mmap:
        """The slot table in memory, read from the file the first time."""
        if self._image is None:
            image = self._blank_image()
            zeros = bytes(_CHUNK_SIZE)
            for at in range(HEADER.size, self.entries_at, _CHUNK_SIZE):
                chunk = self.fs.pread(self.fd, min(_CHUNK_SIZE, self.entries_at - at), at)
                if chunk != zeros[: len(chunk)]:  # what stays untouched takes no memory
                    image[at : at + len(chunk)] = chunk
            self._image = image
        return self._image

    def forget_slots(self) -> None:
        """Free the slot table of a file that takes no more puts."""
        if not self.dirty:
            self._image = None

    def _blank_image(self) -> mmap:
        return mmap(-1, self.entries_at, flags=MAP_PRIVATE | MAP_ANONYMOUS)

    def close(self) -> None:
        if self.fd >= 0:
            self.fs.close(self.fd)
            self.fd = -1
        self._image = None

    # Writing

    @property
    def full(self) -> bool:
        return self.next_entry >= self.entry_count

    def put(self, key_hash: int, physical_offset: int, store_time_ms: int) -> None:
        """Add an entry; the file must not be full."""
        image = self._image
        if image is None:
            image = self.read_slots()
        entry = self.next_entry
        at = 40 + key_hash % self.slot_count * 4
        older = SLOT.unpack_from(image, at)[0]
        if older <= 0 or older >= entry:
            older = 0
            self.slots_used += 1
        seconds = 0
        if self.begin_ms > 0:
            seconds = (store_time_ms - self.begin_ms) // 1000
            if seconds < 0:
                seconds = 0
            elif seconds > SECONDS_MAX:
                seconds = SECONDS_MAX
        self._tail += ENTRY.pack(key_hash, physical_offset, seconds, older)
        if entry == 1:
            self.begin_offset = physical_offset
            self.begin_ms = store_time_ms
        self.next_entry = entry + 1
        SLOT.pack_into(image, at, entry)  # last, so that whoever follows a slot finds its entry
        self._dirty.add(at >> _PAGE_BITS)
        self.end_offset = physical_offset
        self.end_ms = store_time_ms
        if len(self._tail) >= SPILL_SIZE:
            self._spill()

    def _spill(self) -> None:
        try:
            write_all(self.fs, self.fd, self._tail, self._entry_at(self._tail_entry))
        except OSError:
            if len(self._tail) >= TAIL_SIZE_MAX:
                raise
            return  # a full disk may have room by the next flush
        self._drop_tail(self.next_entry)

    def _drop_tail(self, next_entry: int) -> None:
        with self._lock:
            count = next_entry - self._tail_entry
            if count > 0:
                del self._tail[: count * ENTRY.size]
                self._tail_entry = next_entry

    @property
    def dirty(self) -> bool:
        return bool(self._dirty) or self.header() != self._flushed_header

    def changes(self) -> IndexWrite | None:
        """What the disk lacks, as of now."""
        if not self.dirty:
            return None
        header = self.header()
        parts: list[tuple[int, bytes]] = []
        if self._tail:
            parts.append((self._entry_at(self._tail_entry), bytes(self._tail)))
        if self._image is not None:
            parts += [(start, self._image[start:end]) for start, end in self._dirty_ranges()]
        self._dirty = set()
        return IndexWrite(self, parts, header, self.next_entry)

    def written(self, write: IndexWrite) -> None:
        """`write` has run: what it held need not be kept."""
        self._flushed_header = write.header
        self._drop_tail(write.next_entry)
        if self.full:
            self.forget_slots()

    def not_written(self, write: IndexWrite) -> None:
        """`write` failed: its slots are still to be written."""
        for offset, data in write.parts:
            if offset < self.entries_at:
                self._dirty.update(range(offset >> _PAGE_BITS, (offset + len(data) - 1 >> _PAGE_BITS) + 1))

    def _dirty_ranges(self) -> list[tuple[int, int]]:
        """Byte ranges of dirty slot pages, neighbours joined."""
        ranges: list[tuple[int, int]] = []
        for page in sorted(self._dirty):
            start = max(page << _PAGE_BITS, HEADER.size)
            end = min(page + 1 << _PAGE_BITS, self.entries_at)
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
        return ranges

    def header(self) -> bytes:
        return HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.slots_used, self.next_entry
        )

    def replace_slots(self, slots: bytes) -> None:
        """Take another slot table, and write the pages of it that differ."""
        image = self.read_slots()
        for page in range((self.entries_at - 1 >> _PAGE_BITS) + 1):
            start = max(page << _PAGE_BITS, HEADER.size)
            new = slots[start - HEADER.size : (page + 1 << _PAGE_BITS) - HEADER.size]
            if image[start : start + len(new)] != new:
                image[start : start + len(new)] = new
                self._dirty.add(page)

    def reset_count(self, next_entry: int, slots_used: int) -> None:
        """Count other entries than the header did; all of them are in the file."""
        self.next_entry = self._tail_entry = next_entry
        self.slots_used = slots_used

    def cut(self, log_end: int) -> None:
        """Take back the entries of messages at or behind `log_end`, newest first, slot by slot."""
        image = self.read_slots()
        entry = self.next_entry
        while entry > 1:
            key_hash, offset, seconds, older = ENTRY.unpack(self._entry_bytes(entry - 1))
            if offset < log_end:
                self.end_offset = offset
                self.end_ms = min(self.end_ms, self.begin_ms + seconds * 1000 + 999)
                break
            entry -= 1
            at = HEADER.size + key_hash % self.slot_count * SLOT.size
            SLOT.pack_into(image, at, older)
            self._dirty.add(at >> _PAGE_BITS)
            self.slots_used -= not older
        self.next_entry = entry
        with self._lock:
            del self._tail[max(entry - self._tail_entry, 0) * ENTRY.size :]
            self._tail_entry = min(self._tail_entry, entry)

    # Reading

    def _entry_at(self, entry: int) -> int:
        return self.entries_at + entry * ENTRY.size

    def _entry_bytes(self, entry: int) -> bytes:
        if entry >= self._tail_entry:
            at = (entry - self._tail_entry) * ENTRY.size
            return bytes(self._tail[at : at + ENTRY.size])
        return self.fs.pread(self.fd, ENTRY.size, self._entry_at(entry))

    def time_matches(self, begin_ms: int, end_ms: int) -> bool:
        """Whether the file's time span and the asked one overlap, by Java's rule (which wants them nested strictly)."""
        return (
            (begin_ms < self.begin_ms and end_ms > self.end_ms)
            or self.begin_ms <= begin_ms <= self.end_ms
            or self.begin_ms <= end_ms <= self.end_ms
        )

    def select(self, found: list[int], key_hash: int, max_count: int, begin_ms: int, end_ms: int) -> None:
        """Append offsets of entries with this hash and time, newest first, until `found` has `max_count`."""
        at = HEADER.size + key_hash % self.slot_count * SLOT.size
        image = self._image
        entry: int = SLOT.unpack(self.fs.pread(self.fd, SLOT.size, at) if image is None else image[at : at + 4])[0]
        next_entry, base_ms = self.next_entry, self.begin_ms  # after the slot: they move before it does
        with self._lock:
            tail, tail_entry = bytes(self._tail), self._tail_entry
        blocks: dict[int, bytes] = {}
        while 0 < entry < next_entry and len(found) < max_count:
            if entry >= tail_entry:
                stored, stored_at = tail, (entry - tail_entry) * ENTRY.size
            else:
                stored, stored_at = self._block(blocks, entry), entry % _BLOCK_ENTRIES * ENTRY.size
            stored_hash, offset, seconds, older = ENTRY.unpack_from(stored, stored_at)
            if seconds < 0:
                return
            time_ms = base_ms + seconds * 1000
            if stored_hash == key_hash and begin_ms <= time_ms <= end_ms:
                found.append(offset)
            if older >= entry or time_ms < begin_ms:  # chains run to older entries only; anything else is damage
                return
            entry = older

    def _block(self, blocks: dict[int, bytes], entry: int) -> bytes:
        number = entry // _BLOCK_ENTRIES
        block = blocks.get(number)
        if block is None:
            if len(blocks) >= _BLOCKS_MAX:
                blocks.clear()
            at = self._entry_at(number * _BLOCK_ENTRIES)
            block = self.fs.pread(self.fd, min(_BLOCK_ENTRIES * ENTRY.size, self.size - at), at)
            blocks[number] = block
        return block
