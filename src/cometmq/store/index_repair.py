"""An index file after a kill: is it what its header says, and if not, how much of it can be kept?

Java deletes every file that was touched since the last full one, and the keys of up to twenty million messages
with it. But entries alone say everything: they stand in the order of the log, and each names the older entry
of its slot, so the slots can be made again from them and tell at each step what the next entry must say. The
first that says something else is the end. What is cut off is indexed again when the log is replayed.

Improves on: IndexService.load.
"""

from __future__ import annotations

from array import array
from typing import Final

from cometmq.store.index_file import ENTRY, IndexFile

_STEP: Final = 10_000


def slots_run_ahead(file: IndexFile) -> bool:
    """Whether a slot names an entry that the header does not count: the last flush did not end."""
    return file.load_slots().largest() >= file.next_entry


def sound_entries(file: IndexFile) -> tuple[int, int, array[int]]:
    """The first entry that is not sound, the place in the log of the one before it, and the slots that fit."""
    slots = array("i", bytes(4 * file.slot_count))
    next_entry, end_offset, _, _ = _walk(file, slots)
    return next_entry, end_offset, slots


def repair(file: IndexFile) -> None:
    """Keep the entries that are sound, and write slots and header that fit them."""
    slots = array("i", bytes(4 * file.slot_count))
    next_entry, end_offset, seconds, slots_used = _walk(file, slots)
    file.load_slots().replace(slots)
    if next_entry < file.next_entry:
        file.end_offset = end_offset
        file.end_ms = min(file.end_ms, file.begin_ms + seconds * 1000 + 999)
    file.reset(next_entry, slots_used)
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
