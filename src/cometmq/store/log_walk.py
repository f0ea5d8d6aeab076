"""Walking over the records of a segment, fast: fields are unpacked in place and no object is made per record.

A record counts only if everything about it agrees: magic, total size, the lengths of its fields, the physical
offset it carries (which must be the place where it stands), and the body's CRC where asked. The first that does
not is the end of the log: zeros, a torn write, or damage.

Mirrors: CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from struct import error
from typing import Final, NamedTuple
from zlib import crc32

from cometmq.wire.record import BLANK_SIZE, HEADS, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PREFIX

_V4: Final = HEADS[0]


class WalkEnd(Enum):
    """Why a walk over a segment stopped."""

    NEXT_SEGMENT = auto()  # a blank record: the log goes on in the next file
    NO_RECORD = auto()  # here the log ends


class Found(NamedTuple):
    """A sound record; plain tuples of this shape are yielded, for speed. Positions are within the segment."""

    at: int
    size: int
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_time_ms: int
    topic_at: int
    topic_size: int
    properties_at: int


FoundTuple = tuple[int, int, int, int, int, int, int, int, int]


class Walk:
    """One walk over one segment; iterate it, then ask `at` and `end`."""

    def __init__(self, view: memoryview, start: int, at: int, *, check_crc: bool) -> None:
        self._view = view
        self._start = start
        self._check_crc = check_crc
        self.at = at
        self.end = WalkEnd.NO_RECORD

    def __iter__(self) -> Iterator[FoundTuple]:
        view, check_crc = self._view, self._check_crc
        size = len(view)
        at = self.at
        unpack, head_size = _V4.unpack_from, _V4.size
        while True:
            self.at = at
            try:
                fields = unpack(view, at)
            except error:  # too near to the end of the segment for a record
                if at + BLANK_SIZE <= size and PREFIX.unpack_from(view, at)[1] == MAGIC_BLANK:
                    self.end = WalkEnd.NEXT_SEGMENT
                return
            magic = fields[1]
            if magic == MAGIC_BLANK:
                self.end = WalkEnd.NEXT_SEGMENT
                return
            if magic != MAGIC_V1 and magic != MAGIC_V2:
                return
            total, sys_flag = fields[0], fields[7]
            if fields[6] != self._start + at or total <= 0 or total > size - at:
                return
            body_at = at + head_size
            try:
                if sys_flag & 0x30:
                    head = HEADS[sys_flag & 0x30]
                    fields = head.unpack_from(view, at)
                    body_at = at + head.size
                body_size = fields[14]
                topic_at = body_at + body_size + 1
                if body_size < 0 or topic_at > at + total:
                    return
                topic_size = view[topic_at - 1]
                if magic == MAGIC_V2:
                    topic_size = topic_size << 8 | view[topic_at]
                    topic_at += 1
                properties_at = topic_at + topic_size + 2
                if properties_at > at + total:
                    return
                properties_size = view[properties_at - 2] << 8 | view[properties_at - 1]
            except (error, IndexError):
                return
            if properties_at + properties_size != at + total:
                return
            # No CRC covers topic and properties; but a write torn there leaves zeros, and neither ends with one.
            if not topic_size or not view[topic_at + topic_size - 1] or (properties_size and not view[at + total - 1]):
                return
            if check_crc and crc32(view[body_at : body_at + body_size]) & 0x7FFFFFFF != fields[2] and body_size:
                return
            yield at, total, fields[3], fields[5], sys_flag, fields[10], topic_at, topic_size, properties_at
            at += total
