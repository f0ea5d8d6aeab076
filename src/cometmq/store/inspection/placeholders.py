"""What is written over damage, so that both CometMQ and Apache RocketMQ can read the log through.

    [ damage, n bytes ]  →  [ placeholder ][ placeholder ] … [ filler ]

Of a lost message the queue it stood in is known: from the unit that names its place, or from the offset that is missing
between its neighbours. It becomes a placeholder: a message of that topic, queue and offset with a sentence as its body
and the property `__COMET_DAMAGED`, so that no later offset moves. Its other properties are kept if they can still be
read. What is left is filled with a record that looks like a rolled-back transaction: it is in no queue and no index.

Mirrors: nothing in Java.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from cometmq.errors import CorruptRecord
from cometmq.model.properties import DAMAGED_MARK, KEYS, TAGS, UNIQ_KEY, render
from cometmq.wire.record import (
    BLANK_SIZE,
    HEADS,
    RECORD_SIZE_MIN,
    Record,
    decode_record,
    encode_blank,
    encode_record,
    pack_host,
)

FILLER_TOPIC: Final = b"COMET_FILLER"
FILLER_SIZE_MIN: Final = RECORD_SIZE_MIN + 1  # no record is shorter, for a topic has a letter
FILLER_SIZE_MAX: Final = 1 << 20
SENTENCE: Final = b"This message was damaged on the disk; cometmq store repair put this sentence in its place."
WISHED_SIZE: Final = len(SENTENCE) + 32  # so much more than the least makes room for the sentence and the mark

_ROLLBACK: Final = 0xC
_TYPE_AND_HOSTS: Final = 0x3C  # of sysFlag: the kind of transaction, and which hosts are wide
_NEEDED: Final = (TAGS, KEYS, UNIQ_KEY)  # what queues and index hold of a message
_NOBODY: Final = pack_host("127.0.0.1", 0)


class Lost(NamedTuple):
    """A message that is to be replaced; `place` and `size` are -1 where they are not known."""

    topic: str
    queue_id: int
    queue_offset: int
    place: int = -1
    size: int = -1


def size_min(topic: str) -> int:
    """The least bytes that a placeholder takes: v4 hosts, no body, no properties."""
    data = topic.encode()
    return HEADS[0].size + (1 if len(data) <= 127 else 2) + len(data) + 2


def overwritten(
    start: int, damaged: bytes, lost: list[Lost], store_time_ms: int, *, ends_segment: bool
) -> tuple[bytes, list[Lost]]:
    """The bytes to write over `damaged`, which stands at `start`, and those lost messages that found no room.

    A segment ends with a blank record; without one, either broker would take the file's end for the log's.
    """
    end = start + len(damaged)
    placed: list[Lost] = []
    unknown = sorted(item for item in lost if item.place < 0)
    at = start
    for item in sorted((item for item in lost if item.place >= 0), key=lambda item: item.place):
        if (
            item.place < at
            or not _fits(item.place - at)
            or item.size < size_min(item.topic)
            or item.place + item.size > end
        ):
            unknown.append(item)
        else:
            placed.append(item)
            at = item.place + item.size
    while placed and not (end - at >= BLANK_SIZE if ends_segment else _fits(end - at)):
        unknown.append(placed.pop())
        at = placed[-1].place + placed[-1].size if placed else start
    pieces: list[bytes] = []
    at = start
    for item in placed:
        pieces += _free(at, item.place - at, unknown, store_time_ms)
        old = damaged[item.place - start : item.place - start + item.size]
        pieces.append(_placeholder(item, item.place, item.size, old, store_time_ms))
        at = item.place + item.size
    pieces += _free(at, end - at, unknown, store_time_ms, ends_segment=ends_segment)
    return b"".join(pieces), unknown


def _fits(size: int) -> bool:
    return size == 0 or size >= FILLER_SIZE_MIN


def _free(
    at: int, size: int, unknown: list[Lost], store_time_ms: int, *, ends_segment: bool = False
) -> Iterator[bytes]:
    """Placeholders of messages whose place is not known, and fillers, up to exactly `size` bytes."""
    end = at + size
    while unknown:
        needed = size_min(unknown[0].topic)
        left = end - at
        for took in (needed + WISHED_SIZE, needed, left):
            if left - took >= BLANK_SIZE if ends_segment else (took >= needed and _fits(left - took)):
                break
        else:
            break
        yield _placeholder(unknown.pop(0), at, took, b"", store_time_ms)
        at += took
    if ends_segment:
        yield encode_blank(end - at).ljust(end - at, b"\0")
        return
    while at < end:
        took = end - at if end - at <= FILLER_SIZE_MAX else FILLER_SIZE_MAX - FILLER_SIZE_MIN
        yield _filler(at, took, store_time_ms)
        at += took


def _placeholder(item: Lost, place: int, size: int, old: bytes, store_time_ms: int) -> bytes:
    kept = _still_readable(item, old)
    topic = item.topic.encode()
    flag = kept.sys_flag & _TYPE_AND_HOSTS if kept is not None else 0
    fixed = HEADS[flag & 0x30].size + (1 if len(topic) <= 127 else 2) + len(topic) + 2
    data = next(data for data in _marked(kept) if fixed + len(data) <= size)
    body = SENTENCE[: size - fixed - len(data)].ljust(size - fixed - len(data))
    return encode_record(
        topic=topic,
        queue_id=item.queue_id,
        flag=kept.flag if kept is not None else 0,
        queue_offset=item.queue_offset,
        physical_offset=place,
        sys_flag=flag,
        born_time_ms=kept.born_time_ms if kept is not None else store_time_ms,
        born_host=kept.born_host if kept is not None else _NOBODY,
        store_time_ms=store_time_ms,
        store_host=kept.store_host if kept is not None else _NOBODY,
        reconsume_times=kept.reconsume_times if kept is not None else 0,
        prepared_offset=kept.prepared_offset if kept is not None else 0,
        body=body,
        properties_data=data,
    )


def _marked(kept: Record | None) -> Iterator[bytes]:
    """Properties with the mark, from the most to the least."""
    mark = {DAMAGED_MARK: "true"}
    found = kept.properties if kept is not None else {}
    yield render({**found, **mark}).encode()
    yield render({**{name: found[name] for name in _NEEDED if name in found}, **mark}).encode()
    yield render(mark).encode()
    yield b""


def _still_readable(item: Lost, old: bytes) -> Record | None:
    """The record, if only its body is damaged."""
    try:
        record = decode_record(old)
    except CorruptRecord:
        return None
    same = (record.topic, record.queue_id, record.queue_offset) == item[:3] and record.size == item.size
    return record if same else None


def _filler(at: int, size: int, store_time_ms: int) -> bytes:
    topic = FILLER_TOPIC[: size - RECORD_SIZE_MIN]
    return encode_record(
        topic=topic,
        queue_id=0,
        flag=0,
        queue_offset=0,
        physical_offset=at,
        sys_flag=_ROLLBACK,
        born_time_ms=store_time_ms,
        born_host=_NOBODY,
        store_time_ms=store_time_ms,
        store_host=_NOBODY,
        body=bytes(size - RECORD_SIZE_MIN - len(topic)),
    )
