"""The walk over records that fills columns: the pure-Python twin, which says what is right.

Fields are unpacked in place, no object is made per record, and what a column gathered leaves as the buffers that
Arrow lays arrays over:

    fixed    (validity or None, values)
    text     (validity or None, offsets int32, bytes)
    map      (offsets int32, key offsets, key bytes, value offsets, value bytes)

Two kinds of bytes are walked: a pull answer (`base` is -1), where every byte must belong to a record, and a range
of a CommitLog segment, where a record must also stand at the physical offset that it carries, its body must match
its CRC where asked, and a blank record ends the file. Whatever is not a sound record stops the walk, which tells
where; whether that is an end or damage is for the caller to say.

Invariant: rows stop before a column reaches `COLUMN_SIZE_MAX` bytes, for Arrow's offsets have 31 bits.

Mirrors: MessageDecoder.decode, CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterable, Sequence
from enum import IntEnum
from itertools import accumulate
from struct import error
from typing import Final
from zlib import crc32

from cometmq.model import properties
from cometmq.wire.message_id import offset_id
from cometmq.wire.record import BLANK_SIZE, HEADS, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PREFIX, Buffer, host_text

COLUMN_SIZE_MAX: Final = (1 << 31) - 1
TIME_MIN_MS: Final = -62_135_596_800_000  # year 1
TIME_MAX_MS: Final = 253_402_300_799_999  # year 9999
LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1  # as the end of a range: no end

Buffers = tuple["Buffer | array[int] | None", ...]
Unpack = Callable[[bytes, int, bytes, int, int], bytes]  # a packed body; sysFlag, topic, queue and offset of its record


class Stop(IntEnum):
    """Why a walk stopped."""

    REACHED = 0  # at the end of what was asked for
    NEXT_SEGMENT = 1  # at a blank record: the log goes on in the next file
    NO_RECORD = 2  # at bytes that are no sound record
    FULL = 3  # before a record that does not fit in the columns any more


class Walk:
    """Gathers the wanted columns of records until they are taken."""

    def __init__(
        self,
        columns: Sequence[str],
        unpack: Unpack,
        *,
        topics: Container[bytes] | None = None,
        from_ms: int = LONG_MIN,
        until_ms: int = LONG_MAX,
        check_crc: bool = False,
    ) -> None:
        """Only records of `topics` stored in [from_ms, until_ms) become rows."""
        self._unpack = unpack
        self._topics = topics
        self._from_ms = from_ms
        self._until_ms = until_ms
        self._check_crc = check_crc
        self._wanted = frozenset(columns)
        self._needs_properties = not self._wanted.isdisjoint(("message_id", "tags", "keys", "properties"))
        self._begin()

    def _begin(self) -> None:
        self.rows = 0
        self.size = 0  # bytes gathered, about
        self._texts: dict[str, list[bytes | None]] = {name: [] for name in _TEXTS if name in self._wanted}
        self._longs: dict[str, list[int | None]] = {name: [] for name in _LONGS if name in self._wanted}
        self._ints: dict[str, list[int]] = {name: [] for name in _INTS if name in self._wanted}
        self._bodies: list[Buffer] = []
        self._pair_counts: list[int] = []
        self._pair_names: list[bytes] = []
        self._pair_values: list[bytes] = []

    def add(
        self,
        data: Buffer,
        at: int = 0,
        stop: int = -1,
        base: int = -1,
        start_offset: int = LONG_MIN,
        end_offset: int = LONG_MAX,
    ) -> tuple[int, int, int]:
        """Walk the records that begin in [at, stop); returns how many rows came, where it stopped, and why."""
        view = memoryview(data)
        size = len(view)
        stop = size if stop < 0 else min(stop, size)
        rows_before = self.rows
        reason = Stop.REACHED
        from_ms, until_ms = self._from_ms, self._until_ms
        unpack_from, head_size = _V4.unpack_from, _V4.size
        while at < stop:
            reason = Stop.NO_RECORD
            try:
                fields = unpack_from(view, at)
            except error:
                if base >= 0 and at + BLANK_SIZE <= size and PREFIX.unpack_from(view, at)[1] == MAGIC_BLANK:
                    reason = Stop.NEXT_SEGMENT
                break
            magic, total, sys_flag = fields[1], fields[0], fields[7]
            if magic != MAGIC_V1 and magic != MAGIC_V2:
                if magic == MAGIC_BLANK and base >= 0:
                    reason = Stop.NEXT_SEGMENT
                break
            body_at = at + head_size
            end = at + total
            try:
                if sys_flag & 0x30:
                    head = HEADS[sys_flag & 0x30]
                    fields = head.unpack_from(view, at)
                    body_at = at + head.size
                body_size = fields[14]
                topic_at = body_at + body_size + 1
                if total <= 0 or end > size or body_size < 0 or topic_at > end:
                    break
                topic_size = view[topic_at - 1]
                if magic == MAGIC_V2:
                    topic_size = topic_size << 8 | view[topic_at]
                    topic_at += 1
                properties_at = topic_at + topic_size + 2
                if topic_size > (127 if magic == MAGIC_V1 else 0x7FFF) or properties_at > end:
                    break
                properties_size = view[properties_at - 2] << 8 | view[properties_at - 1]
            except (error, IndexError):
                break
            if properties_at + properties_size != end or properties_size > properties.PROPERTIES_SIZE_MAX:
                break
            if (
                base >= 0
                and (
                    fields[6] != base + at
                    # No CRC covers these two; but a write torn there leaves zeros, and neither ends with one.
                    or not topic_size
                    or not view[topic_at + topic_size - 1]
                    or (properties_size and not view[end - 1])
                    or (
                        self._check_crc
                        and body_size
                        and crc32(view[body_at : body_at + body_size]) & 0x7FFFFFFF != fields[2]
                    )
                )
            ):
                break
            is_in_range = start_offset <= fields[5] and (fields[5] < end_offset or end_offset == LONG_MAX)
            if is_in_range and from_ms <= fields[10] and (fields[10] < until_ms or until_ms == LONG_MAX):
                topic = bytes(view[topic_at : topic_at + topic_size])
                if self._topics is None or topic in self._topics:
                    body = view[body_at : body_at + body_size]
                    if not self._row(fields, topic, body, bytes(view[properties_at:end])):
                        reason = Stop.FULL
                        break
            at = end
            reason = Stop.REACHED
        return self.rows - rows_before, at, reason

    def _row(self, fields: tuple[int, ...], topic: bytes, body: Buffer, property_data: bytes) -> bool:
        """Add one row; False if its columns would become too large."""
        if "body" in self._wanted and fields[7] & 1:
            body = self._unpack(bytes(body), fields[7], topic, fields[3], fields[5])
        size = len(body) if "body" in self._wanted else 0
        size += _ROW_SIZE + len(topic) + len(property_data)
        if self.size + size > COLUMN_SIZE_MAX and self.rows:
            return False
        self.size += size
        self.rows += 1
        if "body" in self._wanted:
            self._bodies.append(bytes(body))
        ints, longs, texts = self._ints, self._longs, self._texts
        if "queue" in ints:
            ints["queue"].append(fields[3])
        if "reconsume_times" in ints:
            ints["reconsume_times"].append(fields[12])
        if "offset" in longs:
            longs["offset"].append(fields[5])
        if "born_time" in longs:
            longs["born_time"].append(_microseconds(fields[8]))
        if "store_time" in longs:
            longs["store_time"].append(_microseconds(fields[10]))
        if "topic" in texts:
            texts["topic"].append(_utf8(topic))
        if "born_host" in texts:
            texts["born_host"].append(host_text(fields[9]).encode())  # type: ignore[arg-type]
        if self._needs_properties:
            self._add_properties(fields, property_data)
        return True

    def _add_properties(self, fields: tuple[int, ...], data: bytes) -> None:
        texts = self._texts
        found = properties.parse(str(data, "utf-8", "replace"))
        if "message_id" in texts:
            unique = found.get(properties.UNIQ_KEY) or offset_id(fields[11], fields[6])  # type: ignore[arg-type]
            texts["message_id"].append(unique.encode())
        if "tags" in texts:
            tags = found.get(properties.TAGS)
            texts["tags"].append(None if tags is None else tags.encode())
        if "keys" in texts:
            keys = found.get(properties.KEYS)
            texts["keys"].append(None if keys is None else keys.encode())
        if "properties" in self._wanted:
            self._pair_counts.append(len(found))
            self._pair_names += [name.encode() for name in found]
            self._pair_values += [value.encode() for value in found.values()]

    def take(self) -> tuple[int, dict[str, Buffers]]:
        """How many rows there are, and the buffers of each column; the walk begins anew."""
        taken: dict[str, Buffers] = {}
        for name, texts in self._texts.items():
            taken[name] = (_validity(texts), _offsets([len(text or b"") for text in texts]), _joined(texts))
        for name, longs in self._longs.items():
            taken[name] = (_validity(longs), array("q", [value or 0 for value in longs]))
        for name, ints in self._ints.items():
            taken[name] = (None, array("i", ints))
        if "body" in self._wanted:
            taken["body"] = (None, _offsets([len(body) for body in self._bodies]), b"".join(self._bodies))
        if "properties" in self._wanted:
            names, values = self._pair_names, self._pair_values
            taken["properties"] = (
                _offsets(self._pair_counts),
                _offsets([len(name) for name in names]),
                b"".join(names),
                _offsets([len(value) for value in values]),
                b"".join(values),
            )
        rows = self.rows
        self._begin()
        return rows, taken


_V4: Final = HEADS[0]
_ROW_SIZE: Final = 128  # what a row takes beside its bytes, at most; an offset id and a host are among it
_TEXTS: Final = ("topic", "message_id", "tags", "keys", "born_host")
_LONGS: Final = ("offset", "born_time", "store_time")
_INTS: Final = ("queue", "reconsume_times")


def _utf8(data: bytes) -> bytes:
    """Arrow takes sound UTF-8 only."""
    return data if data.isascii() else str(data, "utf-8", "replace").encode()


def _microseconds(time_ms: int) -> int | None:
    return time_ms * 1000 if TIME_MIN_MS <= time_ms <= TIME_MAX_MS else None


def _offsets(sizes: Iterable[int]) -> array[int]:
    return array("i", accumulate(sizes, initial=0))


def _joined(texts: Iterable[bytes | None]) -> bytes:
    return b"".join([text for text in texts if text])


def _validity(values: Sequence[object | None]) -> bytes | None:
    """One bit per row, the first in the lowest; None where all are there."""
    if None not in values:
        return None
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    return int(bits, 2).to_bytes((len(values) + 7) // 8, "little")
