"""Walking over the records of a segment, fast: many at a time, fields unpacked in place, one plain tuple each.

A record counts only if everything about it agrees: magic, total size, the lengths of its fields, the physical
offset it carries (which must be the place where it stands), and the body's CRC where asked. The first that does
not is the end of the log: zeros, a torn write, or damage.

Mirrors: CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from struct import Struct, error
from typing import Final, NamedTuple
from zlib import crc32

from cometmq import compiled
from cometmq.wire.record import BLANK_SIZE, HEADS, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PREFIX

BATCH: Final = 1024  # records that are found in one go

# The head of a record with v4 hosts, without what a walk does not ask for (flag, born time, hosts, …).
_BRIEF: Final = Struct(">iIIi4xqqi16xq20xi")
_V6_BITS: Final = 0x30


class WalkEnd(Enum):
    """Why a walk over a segment stopped."""

    NEXT_SEGMENT = auto()  # a blank record: the log goes on in the next file
    NO_RECORD = auto()  # here the log ends


class Found(NamedTuple):
    """A sound record; plain tuples of this shape are given out, for speed. `at` counts within the segment."""

    at: int
    size: int
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_time_ms: int
    topic: bytes
    properties: bytes


Crc = Callable[[memoryview], int]
FoundTuple = tuple[int, int, int, int, int, int, bytes, bytes]


def found_in_python(
    view: memoryview, start: int, at: int, count: int, crc: Crc | None
) -> tuple[list[FoundTuple], int, bool]:
    """The records from byte `at` on, at most so many; where they end, and whether a blank stands there.

    `crc` is what the bodies are checked with, if they are.
    """
    size = len(view)
    unpack, head_size = _BRIEF.unpack_from, _BRIEF.size
    found: list[FoundTuple] = []
    add = found.append
    # What stands before the properties, by its magic and how long it is with them: neighbours are often alike.
    known_heads: dict[int, dict[int, tuple[bytes, bytes, int]]] = {MAGIC_V1: {}, MAGIC_V2: {}}
    for _ in range(count):
        try:
            total, magic, body_sum, queue_id, queue_offset, physical, sys_flag, store_time_ms, body_size = unpack(
                view, at
            )
        except error:  # too near to the end of the segment for a record
            return found, at, at + BLANK_SIZE <= size and PREFIX.unpack_from(view, at)[1] == MAGIC_BLANK
        heads = known_heads.get(magic)
        if heads is None:
            return found, at, magic == MAGIC_BLANK
        if physical != start + at or total <= 0 or total > size - at:
            break
        body_at = at + head_size
        if sys_flag & _V6_BITS:
            head = HEADS[sys_flag & _V6_BITS]
            if head.size > total:
                break
            fields = head.unpack_from(view, at)
            store_time_ms, body_size = fields[10], fields[14]
            body_at = at + head.size
        end = at + total
        body_end = body_at + body_size
        if body_size < 0 or body_end + 4 > end:
            break
        rest = view[body_end:end].tobytes()  # topic and properties, each behind its length
        known = heads.get(end - body_end)
        # No CRC covers topic and properties; but a write torn there leaves zeros, and neither ends with one.
        if known is not None and rest.startswith(known[0]) and rest[-1]:
            _, topic, properties_at = known
        else:
            topic_at = 1
            topic_end = 1 + rest[0]
            if magic == MAGIC_V2:
                topic_at = 2
                topic_end = 2 + (rest[0] << 8 | rest[1])
            properties_at = topic_end + 2
            properties_size = len(rest) - properties_at
            if properties_size < 0 or rest[topic_end] << 8 | rest[topic_end + 1] != properties_size:
                break
            if topic_end == topic_at or not rest[topic_end - 1] or (properties_size and not rest[-1]):
                break
            topic = rest[topic_at:topic_end]
            heads[len(rest)] = rest[:properties_at], topic, properties_at
        if crc is not None and body_size and crc(view[body_at:body_end]) & 0x7FFFFFFF != body_sum:
            break
        add((at, total, queue_id, queue_offset, sys_flag, store_time_ms, topic, rest[properties_at:]))
        at = end
    return found, at, False


_found: Final = compiled.twin("found_records", found_in_python)


class Walk:
    """One walk over one segment: take `batch` until one is empty, or iterate; then ask `at` and `end`."""

    def __init__(self, view: memoryview, start: int, at: int, *, check_crc: bool) -> None:
        self._view = view
        self._start = start
        self._crc = crc32 if check_crc else None
        self.at = at
        self.end = WalkEnd.NO_RECORD

    def __iter__(self) -> Iterator[FoundTuple]:
        while found := self.batch():
            yield from found

    def batch(self, count: int = BATCH) -> list[FoundTuple]:
        """The next records, at most so many; none at the end of the walk."""
        found, self.at, is_blank = _found(self._view, self._start, self.at, count, self._crc)
        if is_blank:
            self.end = WalkEnd.NEXT_SEGMENT
        return found
