"""One ConsumeQueue: where the messages of a topic's queue stand in the CommitLog.

    unit (20 bytes, big-endian):   physical offset 8 · size 4 · tags code 8
    file:                          consumequeue/<topic>/<queue id>/<20-digit byte offset>, 300,000 units, sparse

Unit n is message n of the queue. New units collect in `tail`, which readers see at once; `QueueTable` writes them
to the files from time to time and trims the tail. The files can always be rebuilt from the log.

    first_offset ≤ min_offset ≤ max_offset       units in the files begin at first_offset, a multiple of a file
    tail_offset ≤ written_offset ≤ max_offset    the tail starts at tail_offset, the files end at written_offset

A queue whose first message has not offset 0 (its older files are gone) starts with blank units up to it.
A `BatchQueue` keeps its wider units in one of these too, and then unit n is batch n.

Mirrors: ConsumeQueue.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from cometmq.store.fs import FileSystem, remove_tree
from cometmq.store.segment import segment_path
from cometmq.wire.record import MAGIC_V1, MAGIC_V2

UNIT: Final = Struct(">qiq")
UNIT_SIZE: Final = UNIT.size
BLANK_UNIT_SIZE: Final = 0x7FFFFFFF  # of a unit without a message
BLANK_UNIT: Final = UNIT.pack(0, BLANK_UNIT_SIZE, 0)


class ConsumeQueue:
    """State of one queue. `next_offset` is the log's side: the offset that the next message will get."""

    __slots__ = (
        "alive",
        "dirty",
        "file_units",
        "first_offset",
        "folder",
        "magic",
        "max_offset",
        "max_physical",
        "min_offset",
        "next_offset",
        "queue_id",
        "tail",
        "tail_offset",
        "topic",
        "topic_part",
        "unit_size",
        "written_offset",
    )

    def __init__(self, topic: str, queue_id: int, folder: str, file_size: int, unit_size: int = UNIT_SIZE) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.folder = folder
        self.unit_size = unit_size
        self.file_units = file_size // unit_size
        data = topic.encode()
        # The topic as a record carries it, with its length before it.
        short = len(data) <= 127
        self.topic_part = len(data).to_bytes(1 if short else 2, "big") + data
        self.magic = MAGIC_V1 if short else MAGIC_V2
        self.alive = True
        self.dirty = False
        self.tail = bytearray()
        self.reset(0)

    def reset(self, offset: int) -> None:
        """An empty queue whose next message is `offset`."""
        self.first_offset = offset - offset % self.file_units
        self.min_offset = self.max_offset = self.next_offset = offset
        self.tail_offset = self.written_offset = self.first_offset
        self.tail = bytearray(BLANK_UNIT.ljust(self.unit_size, b"\0") * (offset - self.first_offset))
        self.max_physical = -1

    @property
    def end_offset(self) -> int:
        """The offset behind the last visible message."""
        return self.max_offset

    def load(self, first_offset: int, max_offset: int) -> None:
        """The files hold units `[first_offset, max_offset)`."""
        self.first_offset = self.min_offset = first_offset
        self.max_offset = self.next_offset = self.tail_offset = self.written_offset = max_offset
        self.tail = bytearray()

    def put(self, physical_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Add the unit of a message at or behind the end; False if its offset cannot be right."""
        if queue_offset > self.max_offset:
            if self.max_physical < 0 and self.written_offset == self.first_offset:
                self.reset(queue_offset)
            elif queue_offset - self.max_offset > self.file_units:
                return False  # no sane gap: the record's offset is damaged
            else:
                # Messages are missing: their units name the place where they would stand, so that units stay in order.
                self.tail += UNIT.pack(self.max_physical, BLANK_UNIT_SIZE, 0) * (queue_offset - self.max_offset)
        self.tail += UNIT.pack(physical_offset, size, tags_code)
        self.max_offset = queue_offset + 1
        self.max_physical = physical_offset + size
        self.dirty = True
        return True

    # Files

    def path_of(self, offset: int) -> str:
        """The file in which unit `offset` stands."""
        return segment_path(self.folder, (offset - offset % self.file_units) * self.unit_size)

    def file_end(self, offset: int) -> int:
        """The first unit of the file after that of `offset`."""
        return offset + self.file_units - offset % self.file_units

    def cut(self, fs: FileSystem, offset: int) -> None:
        """Drop the units from `offset` on, in memory and in the files. The caller holds the table's file lock."""
        if offset <= self.first_offset:
            self.drop_files(fs)
            self.reset(offset)
            return
        unit_size = self.unit_size
        for name in fs.list_dir(self.folder):
            start = int(name) // unit_size
            path = f"{self.folder}/{name}"
            if start >= offset or start < self.first_offset:  # behind the end, or left over
                fs.unlink(path)
            elif start + self.file_units > offset:
                fd = fs.open(path)
                try:
                    if fs.zero(fd, (offset - start) * unit_size, self.file_units * unit_size):
                        fs.sync(fd)
                finally:
                    fs.close(fd)
        if offset <= self.tail_offset:
            self.tail_offset = offset
            self.tail = bytearray()
        else:
            del self.tail[(offset - self.tail_offset) * unit_size :]
        self.written_offset = min(self.written_offset, offset)
        self.max_offset = self.next_offset = offset
        self.min_offset = min(self.min_offset, offset)

    def drop_files(self, fs: FileSystem) -> None:
        remove_tree(fs, self.folder)
