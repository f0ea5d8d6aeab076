"""The compiled loops of the store and their pure-Python twins give the same, whatever they are given."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.kit import HOST, HandClock, open_small

from cometmq import compiled
from cometmq.model.properties import KEY_SEPARATOR
from cometmq.store.append import Appender, BatchItem
from cometmq.store.append import Entry as Message
from cometmq.store.consume_queue import UNIT, ConsumeQueue
from cometmq.store.dispatch import new_units_in_python, put_units_in_python
from cometmq.store.index_file import Entry, packed_entries_in_python
from cometmq.store.index_keys import TAG_PREFIX, PendingEntries
from cometmq.store.index_slots import IndexSlots
from cometmq.store.log_walk import FoundTuple, found_in_python
from cometmq.store.quick_read import framed_in_python
from cometmq.store.replay import entries_in_python
from cometmq.store.unit_healing import sound_ranges_in_python
from cometmq.wire.record import body_crc, encode_blank, encode_record, v6_flags

pytestmark = pytest.mark.skipif(compiled.twins is None, reason="the extension is not built here")

words = (
    st.none() | st.sampled_from(["TagA", "a b", " a  b ", "x" * 32, "é" * 32, "😀 y", "polygenelubricants"]) | st.text()
)
longs = st.integers(0, 2**62)
messages = st.tuples(
    longs, st.sampled_from([ConsumeQueue(topic, 0, "", 20) for topic in ("A", "Bé", "C😀")]), longs, st.just(1),
    st.just(0), st.just(0), words, words, longs, st.sampled_from([0, 4, 8, 0xC, 0x1C]), words,
)  # fmt: skip


@given(st.lists(messages, max_size=40))
def test_entries_of_messages(found: list[Message]) -> None:
    pure = PendingEntries()
    pure.put_messages(found)
    assert pure.take() == compiled.twins.entries_of(found, KEY_SEPARATOR, TAG_PREFIX)


@given(
    st.lists(st.tuples(st.integers(0, 2**31 - 1) | st.integers(0, 9), longs, st.integers(0, 2**52)), max_size=60),
    st.integers(1, 50),
    st.sampled_from([0, 1, 1_700_000_000_000]),
)
def test_entries_of_a_file(entries: list[Entry], first: int, begin_ms: int) -> None:
    results = []
    for pack in (packed_entries_in_python, compiled.twins.packed_entries):
        table = IndexSlots(2_500)
        table.set(3, first - 1)
        table.set(4, first + 1)  # from a file that was cut
        results.append((pack(entries, table.view, 2_500, first, begin_ms, table.dirty), table.dirty, bytes(table.view)))
    assert results[0] == results[1]


@st.composite
def named_records(draw: st.DrawFn) -> tuple[int, bytes, list[tuple[int, int]], int, int]:
    """Where a log begins, its bytes, the places of a queue's records, the queue, its first offset; spoilt or not."""
    start, queue_id, offset, log = draw(st.sampled_from([0, 100, 2**40])), draw(st.integers(0, 9)), draw(longs), b""
    ranges: list[tuple[int, int]] = []
    for gap, body in draw(st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=60)), min_size=1, max_size=32)):
        record = encode_record(
            topic=b"T", queue_id=queue_id, flag=0, queue_offset=offset + len(ranges), physical_offset=start + len(log),
            sys_flag=0, born_time_ms=1, born_host=HOST, store_time_ms=1, store_host=HOST, body=body,
        )  # fmt: skip
        log += bytes(gap)
        ranges.append((start + len(log), len(record)))
        log += record
    if draw(st.booleans()):
        number = draw(st.integers(0, len(ranges) - 1))
        spoilt = bytearray(UNIT.pack(*ranges[number], 0))
        spoilt[draw(st.integers(0, 11))] ^= 1 << draw(st.integers(0, 7))
        ranges[number] = UNIT.unpack(spoilt)[:2]
    if draw(st.booleans()):
        log = log[: draw(st.integers(0, len(log)))]
    return start, log, ranges, queue_id, offset


@settings(max_examples=400)
@given(st.data(), st.binary(min_size=4, max_size=30), named_records())
def test_frames(data: st.DataObject, head: bytes, made: tuple[int, bytes, list[tuple[int, int]], int, int]) -> None:
    start, log, ranges, queue_id, offset = made
    units = b"".join(UNIT.pack(*one, 7) for one in ranges)
    end = start + data.draw(st.integers(0, len(log)) | st.just(len(log)))
    size_max = data.draw(st.integers(0, 2_000) | st.just(1 << 20))
    asked = head, memoryview(log), start, units, end, size_max, queue_id, offset
    assert framed_in_python(*asked) == compiled.twins.framed(*asked)


@settings(max_examples=400)
@given(st.data(), named_records(), st.integers(0, 33))
def test_sound_ranges(
    data: st.DataObject, made: tuple[int, bytes, list[tuple[int, int]], int, int], number: int
) -> None:
    start, log, ranges, queue_id, offset = made
    end = start + data.draw(st.integers(0, len(log)) | st.just(len(log)))
    offsets = range(offset, offset + len(ranges))
    asked = memoryview(log), start, ranges, offsets, number, end, queue_id
    assert sound_ranges_in_python(*asked) == compiled.twins.sound_ranges(*asked)


@pytest.mark.parametrize(
    "unit", [UNIT.pack(-5, 93, 0), UNIT.pack(99, 93, 0), UNIT.pack(2**62, 93, 0), UNIT.pack(100, -1, 0)]
)
def test_a_place_outside_the_log_is_never_read(unit: bytes) -> None:
    for frame in (framed_in_python, compiled.twins.framed):
        assert frame(b"head", memoryview(bytes(50)), 100, unit, 150, 1_000, 0, 0) is None
    unit = UNIT.pack(120, 100, 0)
    assert compiled.twins.framed(b"head", memoryview(bytes(50)), 100, unit, 1_000, 1_000, 0, 0) is None
    assert compiled.twins.sound_ranges(memoryview(bytes(50)), 100, [(120, 100)], [0], 0, 1_000, 0) == 0


@st.composite
def segments(draw: st.DrawFn) -> tuple[int, bytes, list[int]]:
    """The offset of a segment, its bytes, damaged here and there, and where its records were written."""
    start, data, places = draw(st.sampled_from([0, 4096, 2**40])), b"", [0]
    for number in range(draw(st.integers(0, 5))):
        hosts = [draw(st.sampled_from([HOST, bytes(12) + HOST])) for _ in range(2)]
        data += encode_record(
            topic=draw(st.sampled_from([b"T", b"Other", "ü".encode() * 70, b"T\0", b""])),
            queue_id=number, flag=0, queue_offset=draw(longs), physical_offset=start + len(data),
            sys_flag=draw(st.sampled_from([0, 4, 8, 0xC])) | v6_flags(*hosts), born_time_ms=1, born_host=hosts[0],
            store_time_ms=draw(longs), store_host=hosts[1],
            body=draw(st.binary(max_size=20) | st.binary(min_size=60, max_size=99)),
            properties_data=draw(st.sampled_from([b"", b"A\x01b\x02", b"TAGS\x01t", b"A\x01\0"])),
        )  # fmt: skip
        places.append(len(data))
    data += draw(st.sampled_from([b"", encode_blank(8), encode_blank(100).ljust(100, b"\0"), bytes(7), bytes(200)]))
    spoilt = bytearray(data[: draw(st.integers(0, len(data))) if draw(st.booleans()) else None])
    for _ in range(draw(st.integers(0, 2)) if spoilt else 0):
        spoilt[draw(st.integers(0, len(spoilt) - 1))] = draw(st.integers(0, 255))
    return start, bytes(spoilt), places


@settings(max_examples=400)
@given(segments(), st.integers(0, 7), st.booleans(), st.data())
def test_records_of_a_segment(
    segment: tuple[int, bytes, list[int]], count: int, check: bool, data: st.DataObject
) -> None:
    start, log, places = segment
    at = data.draw(st.sampled_from(places) | st.integers(0, len(log) + 9))
    asked = memoryview(log), start, at, count, crc32 if check else None
    assert found_in_python(*asked) == compiled.twins.found_records(*asked)


properties_data = st.lists(
    st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"TAG", b"\x01", b"\x02", b"a b", b"\xc3\xbc", b"\xff", b"x" * 32]),
    max_size=9,
).map(b"".join)
found_records = st.lists(
    st.tuples(
        st.integers(0, 2_000), st.integers(91, 500), st.integers(0, 2), longs, st.sampled_from([0, 4, 8, 0xC]), longs,
        st.sampled_from([b"T", b"U"]), properties_data,
    ),
    max_size=12,
)  # fmt: skip


@given(found_records, longs, st.integers(0, 2_000), longs, longs)
def test_entries_of_records(
    found: list[FoundTuple], start: int, indexed_before: int, last_ms: int, newest_ms: int
) -> None:
    queues = {(b"T", number): ConsumeQueue("T", number, "", 20) for number in range(2)}
    queues[b"T", 0].max_physical = start + 700
    queues[b"T", 1].max_physical = start + (sum(found[0][:2]) if found else 0)
    results = []
    for entries_of in (entries_in_python, compiled.twins.replayed_entries):
        asked: list[object] = []

        def patient(start: int, record: FoundTuple, asked: list[object] = asked) -> Message | None:
            asked.append((start, record))
            return None if record[2] else (1, ConsumeQueue("U", 0, "", 20), 1, 1, 1, 1, None, None, 1, 1, None)

        def mend(queue: ConsumeQueue, at: int, code: int, asked: list[object] = asked) -> None:
            asked.append((queue, at, code))

        entries, time_ms = entries_of(found, start, queues, start + indexed_before, last_ms, newest_ms, patient, mend)
        results.append(([(entry[1].topic, entry[0], *entry[2:]) for entry in entries], time_ms, asked))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("pure", "quick"), [(put_units_in_python, "put_units"), (new_units_in_python, "new_units")], ids=["found", "new"]
)
@given(
    placed=st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 6), st.integers(0, 300), st.integers()), max_size=30)
)
def test_units_of_entries(pure: Any, quick: str, placed: list[tuple[int, int, int, int]]) -> None:
    results = []
    for put_units in (pure, getattr(compiled.twins, quick)):
        queues = [ConsumeQueue("T", number, "", 20) for number in range(3)]
        queues[1].max_physical = 0
        queues[2].max_offset = -2  # as that of a queue of batches
        calls = []

        def put(
            queue: ConsumeQueue, at: int, size: int, code: int, queue_offset: int, time_ms: int, calls: Any = calls
        ) -> bool:
            calls.append((queue.queue_id, at, size, code, queue_offset, time_ms))
            return queue.queue_id < 2 and queue.put(at, size, code, queue_offset)

        entries = [
            (at + 100, queues[number], at, 100, code % 2**63, queue_offset, None, None, 7, 0, None)
            for number, queue_offset, at, code in placed
        ]
        count = put_units(entries, put)
        if quick == "new_units":
            count = count[0], [queue.queue_id for queue in count[1]]
        state = [(queue.tail, queue.max_offset, queue.max_physical, queue.dirty) for queue in queues]
        results.append((count, calls, state))
    assert results[0] == results[1]


@given(st.integers(0, 300), st.randoms(use_true_random=False))
def test_checksums(size: int, dice: Random) -> None:
    body = dice.randbytes(size)
    assert compiled.twins.body_crc(body, crc32) == body_crc(body)


items = st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=40), words, words, words)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(items, min_size=1, max_size=6), max_size=4), st.sampled_from([HOST, bytes(16) + HOST[4:]]))
def test_records_of_a_batch(batches: list[list[BatchItem]], host: bytes) -> None:
    results = []
    for append_all in (Appender._append_all, Appender._append_all_compiled):
        with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
            patch.setattr(Appender, "_append_all_compiled", append_all)
            store = open_small(Path(root), clock=HandClock())
            places = [store.append_batch("T", 1, batch, 0, 7, host, 2) for batch in batches]
            waiting = [(*entry[:1], *entry[2:]) for entry in store.appender.undispatched]
            results.append((places, waiting, b"".join(map(bytes, store._log.parts))))
            store.abandon()
    assert results[0] == results[1]
