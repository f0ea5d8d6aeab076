"""An index file after a kill, or with a damaged header: is it what its header says, and if not, how much can be kept?

Java deletes every file that was touched since the last full one, and the keys of up to twenty million messages
with it. But entries alone say everything: they stand in the order of the log, and each names the older entry
of its slot, so the slots can be made again from them and tell at each step what the next entry must say. The
first that says something else is the end. What is cut off is indexed again when the log is replayed.

All that a header says stands elsewhere, too: how many entries there are in the slots, offsets in the first and the last
entry, times in the messages that these name. Only how many slots are used must be counted, and nobody asks for it.

Improves on: IndexService.load.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

from cometmq.store.index_file import ENTRY, HEADER, IndexFile
from cometmq.store.index_slots import SLOT

TimeAt = Callable[[int], "int | None"]  # store time of the record that stands there

_STEP: Final = 10_000


def slots_run_ahead(file: IndexFile) -> bool:
    """Whether a slot names an entry that the header does not count: the last flush did not end."""
    return file.load_slots().largest() >= file.next_entry


def is_marked(file: IndexFile) -> bool:
    """Whether not all that the header counts may have got to the disk."""
    return file.slots_used < 0


def sound_entries(file: IndexFile) -> tuple[int, int, array[int]]:
    """The first entry that is not sound, the place in the log of the one before it, and the slots that fit."""
    slots = array("i", bytes(4 * file.slot_count))
    next_entry, end_offset, _, _ = _walk(file, slots)
    return next_entry, end_offset, slots


def header_fits(file: IndexFile, time_at: TimeAt, *, clean: bool) -> bool:
    """Whether the header agrees with what is behind it, of which a kill may have left more than it counts."""
    stored = file.fs.pread(file.fd, HEADER.size, 0)
    if stored != file.header() and (clean or any(stored)):
        return False  # it counts less than none, or more than there is room for
    if is_marked(file):
        return False
    count = file.next_entry
    if clean and count < file.entry_count:
        behind = ENTRY.unpack(file.fs.pread(file.fd, ENTRY.size, file.entry_at(count)))
        at = HEADER.size + behind[0] % file.slot_count * SLOT.size
        if SLOT.unpack(file.fs.pread(file.fd, SLOT.size, at))[0] >= count and any(behind):
            return False
    if count == 1:
        return True
    _, begin_offset, _, _ = ENTRY.unpack(file.fs.pread(file.fd, ENTRY.size, file.entry_at(1)))
    _, end_offset, _, _ = ENTRY.unpack(file.fs.pread(file.fd, ENTRY.size, file.entry_at(count - 1)))
    return (
        (begin_offset, end_offset) == (file.begin_offset, file.end_offset)
        and time_at(begin_offset) in (None, file.begin_ms)
        and time_at(end_offset) in (None, file.end_ms)
    )


def mend_header(file: IndexFile, time_at: TimeAt) -> None:
    """Make the header again from the entries, and from the log, whose times no entry has; the slots, too."""
    if not is_marked(file):
        first = file.fs.pread(file.fd, ENTRY.size, file.entry_at(1))
        file.next_entry = file.entry_count if any(first) else 1
    slots = array("i", bytes(4 * file.slot_count))
    next_entry, end_offset, seconds, slots_used = _walk(file, slots)
    file.load_slots().replace(slots)
    file.reset(next_entry, slots_used)
    if next_entry > 1:
        file.begin_offset, file.end_offset = file.first_offset(), end_offset
        file.begin_ms = time_at(file.begin_offset) or file.begin_ms
        file.end_ms = time_at(end_offset) or file.begin_ms + seconds * 1000 + 999
    _write(file)


def repair(file: IndexFile) -> None:
    """Keep the entries that are sound, and write slots and header that fit them."""
    slots = array("i", bytes(4 * file.slot_count))
    next_entry, end_offset, seconds, slots_used = _walk(file, slots)
    file.load_slots().replace(slots)
    if next_entry < file.next_entry:
        file.end_offset = end_offset
        file.end_ms = min(file.end_ms, file.begin_ms + seconds * 1000 + 999)
    file.reset(next_entry, slots_used)
    _write(file)


def _write(file: IndexFile) -> None:
    write = file.changes()
    if write is not None:
        write.run()
        file.written(write)


def _walk(file: IndexFile, slots: array[int]) -> tuple[int, int, int, int]:
    """Fill `slots` from the sound entries: (next entry, offset and seconds of the one before it, slots used)."""
    slot_count = file.slot_count
    entry, last_offset, last_seconds, slots_used = 1, 0, 0, 0
    while entry < file.next_entry:
        count = min(_STEP, file.next_entry - entry)
        data = file.fs.pread(file.fd, count * ENTRY.size, file.entry_at(entry))
        if len(data) < count * ENTRY.size:
            break
        for key_hash, offset, seconds, older in ENTRY.iter_unpack(data):
            slot = key_hash % slot_count
            if key_hash < 0 or offset < last_offset or seconds < 0 or older != slots[slot]:
                return entry, last_offset, last_seconds, slots_used
            slots_used += older == 0
            slots[slot] = entry
            last_offset, last_seconds = offset, seconds
            entry += 1
    return entry, last_offset, last_seconds, slots_used
