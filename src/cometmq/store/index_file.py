"""One index file: a hash table from key to CommitLog offsets, of fixed size, filled from front to back.

    header  40    begin_ms 8 | end_ms 8 | begin_offset 8 | end_offset 8 | slots used 4 | next entry 4
    slots    4 *  max_hash_slot_num     number of the newest entry whose hash falls here; 0 is none
    entries 20 *  max_index_num         hash 4 | CommitLog offset 8 | seconds since begin_ms 4 | older entry 4

Big-endian. Entry 0 is never used, so a file holds one entry less than it has room for.

Adding touches memory only: the slots of the file that is written are held in anonymous memory (resident as far
as it is used), new entries wait in a buffer. `changes` copies what is not on disk into an `IndexWrite`, which
any thread may carry out while adding goes on; `written` then lets go of it. Order on disk: entries, slots and a header
that is marked, sync, header, sync. So what a header without the mark counts is there, whatever happens; slots that run
ahead of the header, and headers that are marked, are found and set right by `index_repair` after a kill. Java knows no
mark: it finds all that a killed process has written, where slots that wait for their header would lead it nowhere. Of a
marked header the end of time is the old one, for Java removes a file that ends later than the checkpoint says.

Mirrors: IndexFile, IndexHeader.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from threading import Lock
from typing import Final

from cometmq import compiled
from cometmq.store.fs import FileSystem, write_all
from cometmq.store.index_slots import HEADER_ROOM, PAGE_SLOTS, SLOT, IndexSlots
from cometmq.store.syncing import sync_file

HEADER: Final = Struct(">qqqqii")
ENTRY: Final = Struct(">iqii")
UNSYNCED: Final = -(1 << 31)  # added to the slots used, a count that nobody asks for
SECONDS_MAX: Final = 0x7FFF_FFFF
SPILL_SIZE: Final = 1 << 20  # entries beyond this are written without waiting for the next flush
TAIL_SIZE_MAX: Final = 16 << 20  # on a disk that takes nothing: where memory ends, and indexing with it

_BLOCK_ENTRIES: Final = 3_276  # a chain is read in steps of about 64 KiB
_BLOCKS_MAX: Final = 16

Entry = tuple[int, int, int]  # hash of the key, CommitLog offset, store time in ms


@dataclass(frozen=True, slots=True)
class IndexWrite:
    """Bytes of one file on their way to the disk; `header` counts exactly what they complete."""

    file: IndexFile
    entries_at: int
    entries: bytes
    pages: frozenset[int]
    slots: list[tuple[int, bytes]]
    marked_header: bytes
    header: bytes
    next_entry: int

    def run(self) -> None:
        """Write and sync; from any thread."""
        fs, fd = self.file.fs, self.file.fd
        if self.entries:
            write_all(fs, fd, self.entries, self.entries_at)
        for offset, data in self.slots:
            write_all(fs, fd, data, offset)
        write_all(fs, fd, self.marked_header, 0)
        sync_file(fs, fd)
        write_all(fs, fd, self.header, 0)
        sync_file(fs, fd)


def packed_entries_in_python(
    entries: list[Entry], slots: memoryview, slot_count: int, entry: int, begin_ms: int, dirty: set[int]
) -> tuple[bytes, int]:
    """Entries as the file has them, from number `entry` on, chained to those in `slots`; and how many slots were empty.

    `begin_ms` is the file's first time, or the end of the file before, from which its first entry counts.
    """
    packed: list[bytes] = []
    pack, note_page = ENTRY.pack, dirty.add
    used = 0
    seconds, seconds_of_ms = 0, -1
    for key_hash, physical_offset, store_time_ms in entries:
        at = key_hash % slot_count + HEADER_ROOM
        older = slots[at]
        if not 0 < older < entry:
            older = 0
            used += 1
        if store_time_ms != seconds_of_ms:  # many share a millisecond
            seconds = min(max((store_time_ms - begin_ms) // 1000, 0), SECONDS_MAX) if begin_ms > 0 else 0
            seconds_of_ms = store_time_ms
        packed.append(pack(key_hash, physical_offset, seconds, older))
        slots[at] = entry
        note_page(at // PAGE_SLOTS)
        if entry == 1:
            begin_ms = store_time_ms
            seconds_of_ms = -1
        entry += 1
    return b"".join(packed), used


packed_entries = compiled.twin("packed_entries", packed_entries_in_python)


class IndexFile:
    """One thread adds and flushes; `select` may run in others."""

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
        self._slots: IndexSlots | None = None
        self._tail = bytearray()  # entries that are not in the file
        self._tail_entry = 1
        self._flushed_header = b""
        self._lock = Lock()  # held while slots, count and tail change, and where `select` reads all three

    # Opening and closing

    def create(self) -> None:
        """Make the file, sparse."""
        self.fd = self.fs.open(self.path, create=True)
        self.fs.truncate(self.fd, self.size)
        self._slots = IndexSlots(self.slot_count)

    def begin_behind(self, before: IndexFile) -> None:
        """Begin where the file before ends, on disk too: Java indexes all that it replays into one that is blank."""
        self.begin_ms = self.end_ms = before.end_ms
        self.begin_offset = self.end_offset = before.end_offset
        with suppress(OSError):  # a full disk may have room by the next flush
            write_all(self.fs, self.fd, self.header(), 0)
            self._flushed_header = self.header()

    def open(self) -> None:
        """Open a file that exists and read its header."""
        self.fd = self.fs.open(self.path)
        data = self._flushed_header = self.fs.pread(self.fd, HEADER.size, 0)
        (self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.slots_used, next_entry) = HEADER.unpack(
            data
        )
        self.next_entry = self._tail_entry = min(max(next_entry, 1), self.entry_count)

    def close(self) -> None:
        if self.fd >= 0:
            self.fs.close(self.fd)
            self.fd = -1
        self._slots = None

    def load_slots(self) -> IndexSlots:
        """The slots in memory, read from the file the first time."""
        if self._slots is None:
            slots = IndexSlots(self.slot_count)
            slots.read(self.fs, self.fd)
            self._slots = slots
        return self._slots

    def forget_slots(self) -> None:
        """Free the memory of a file that is complete and on disk."""
        if not self.dirty:
            self._slots = None

    # Writing

    @property
    def full(self) -> bool:
        return self.next_entry >= self.entry_count

    def add(self, entries: list[Entry]) -> int:
        """Add as many as fit; how many that is."""
        some = entries[: self.entry_count - self.next_entry]
        if not some:
            return 0
        table = self.load_slots()
        with self._lock:
            packed, used = packed_entries(
                some, table.view, self.slot_count, self.next_entry, self.begin_ms, table.dirty
            )
            if self.next_entry == 1:
                self.begin_offset, self.begin_ms = some[0][1:]
            self.slots_used += used
            self.next_entry += len(some)
            self.end_offset, self.end_ms = some[-1][1:]
            self._tail += packed
        if len(self._tail) >= SPILL_SIZE:
            self._spill()
        return len(some)

    def _spill(self) -> None:
        try:
            write_all(self.fs, self.fd, self._tail, self.entry_at(self._tail_entry))
        except OSError:
            if len(self._tail) >= TAIL_SIZE_MAX:
                raise
            return  # a full disk may have room by the next flush
        self._drop_tail(self.next_entry)

    def _drop_tail(self, next_entry: int) -> None:
        count = next_entry - self._tail_entry
        if count > 0:
            with self._lock:
                del self._tail[: count * ENTRY.size]
                self._tail_entry = next_entry

    def header(self) -> bytes:
        return HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.slots_used, self.next_entry
        )

    def _marked_header(self) -> bytes:
        end_ms = HEADER.unpack(self._flushed_header)[1] if self._flushed_header else 0
        return HEADER.pack(
            self.begin_ms, end_ms, self.begin_offset, self.end_offset, self.slots_used + UNSYNCED, self.next_entry
        )

    @property
    def dirty(self) -> bool:
        return self.header() != self._flushed_header or (self._slots is not None and bool(self._slots.dirty))

    def changes(self) -> IndexWrite | None:
        """What the disk lacks, as of now."""
        if not self.dirty:
            return None
        pages, slots = self._slots.take_dirty() if self._slots is not None else (frozenset[int](), [])
        at = self.entry_at(self._tail_entry)
        return IndexWrite(
            self, at, bytes(self._tail), pages, slots, self._marked_header(), self.header(), self.next_entry
        )

    def written(self, write: IndexWrite) -> None:
        """`write` has run: what it held need not be kept."""
        self._flushed_header = write.header
        self._drop_tail(write.next_entry)
        if self.full:
            self.forget_slots()

    def not_written(self, write: IndexWrite) -> None:
        """`write` failed: its slots are still to be written; its entries were not let go."""
        if self._slots is not None:
            self._slots.dirty |= write.pages

    def cut(self, log_end: int) -> None:
        """Take back the entries of messages at or behind `log_end`, newest first, slot by slot."""
        table = self.load_slots()
        entry = self.next_entry
        with self._lock:
            while entry > 1:
                key_hash, offset, seconds, older = ENTRY.unpack(self._entry_bytes(entry - 1))
                if offset < log_end:
                    self.end_offset = offset
                    self.end_ms = min(self.end_ms, self.begin_ms + seconds * 1000 + 999)
                    break
                entry -= 1
                table.set(key_hash % self.slot_count, older)
                self.slots_used -= older == 0
            del self._tail[max(entry - self._tail_entry, 0) * ENTRY.size :]
            self.next_entry = entry
            self._tail_entry = min(self._tail_entry, entry)

    def reset(self, next_entry: int, slots_used: int) -> None:
        """Count other entries than the header did; all of them are in the file."""
        self.next_entry = self._tail_entry = next_entry
        self.slots_used = slots_used

    # Reading

    def entry_at(self, entry: int) -> int:
        return self.entries_at + entry * ENTRY.size

    def _entry_bytes(self, entry: int) -> bytes:
        if entry >= self._tail_entry:
            at = (entry - self._tail_entry) * ENTRY.size
            return bytes(self._tail[at : at + ENTRY.size])
        return self.fs.pread(self.fd, ENTRY.size, self.entry_at(entry))

    def first_offset(self) -> int:
        """Where the message of the first entry stands, by the entry itself."""
        offset: int = ENTRY.unpack(self._entry_bytes(1))[1]
        return offset

    def time_matches(self, begin_ms: int, end_ms: int) -> bool:
        """Whether the file's span of time and the asked one meet, by Java's rule."""
        return (
            (begin_ms < self.begin_ms and end_ms > self.end_ms)
            or self.begin_ms <= begin_ms <= self.end_ms
            or self.begin_ms <= end_ms <= self.end_ms
        )

    def select(self, found: list[int], key_hash: int, max_count: int, begin_ms: int, end_ms: int) -> None:
        """Append offsets of entries with this hash and time, newest first, until `found` has `max_count`."""
        slot = key_hash % self.slot_count
        with self._lock:
            slots, entry, next_entry = self._slots, 0, self.next_entry
            tail, tail_entry = bytes(self._tail), self._tail_entry
            if slots is not None:
                entry = slots.get(slot)
        if slots is None:
            entry = SLOT.unpack(self.fs.pread(self.fd, SLOT.size, HEADER.size + slot * SLOT.size))[0]
        blocks: dict[int, bytes] = {}
        while 0 < entry < next_entry and len(found) < max_count:
            if entry >= tail_entry:
                stored, at = tail, (entry - tail_entry) * ENTRY.size
            else:
                stored, at = self._block(blocks, entry), entry % _BLOCK_ENTRIES * ENTRY.size
            stored_hash, offset, seconds, older = ENTRY.unpack_from(stored, at)
            time_ms = self.begin_ms + seconds * 1000
            if seconds < 0:
                return
            if stored_hash == key_hash and begin_ms <= time_ms <= end_ms:
                found.append(offset)
            if older >= entry or time_ms < begin_ms:  # a chain leads to older entries; anything else is damage
                return
            entry = older

    def _block(self, blocks: dict[int, bytes], entry: int) -> bytes:
        number = entry // _BLOCK_ENTRIES
        block = blocks.get(number)
        if block is None:
            if len(blocks) >= _BLOCKS_MAX:
                blocks.clear()
            at = self.entry_at(number * _BLOCK_ENTRIES)
            block = self.fs.pread(self.fd, min(_BLOCK_ENTRIES * ENTRY.size, self.size - at), at)
            blocks[number] = block
        return block
