"""The compiled loops of the store and their pure-Python twins give the same, whatever they are given."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.kit import HOST, HandClock, open_small

from cometmq import compiled
from cometmq.model.properties import KEY_SEPARATOR
from cometmq.store.append import Appender, BatchItem
from cometmq.store.append import Entry as Message
from cometmq.store.consume_queue import UNIT, ConsumeQueue
from cometmq.store.index_file import Entry, packed_entries_in_python
from cometmq.store.index_keys import TAG_PREFIX, PendingEntries
from cometmq.store.index_slots import IndexSlots
from cometmq.store.quick_read import framed_in_python

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


@given(st.data(), st.binary(min_size=4, max_size=30), st.integers(0, 1_000), st.integers(0, 2_000))
def test_frames(data: st.DataObject, head: bytes, start: int, size_max: int) -> None:
    log = memoryview(bytes(range(256)) * 4)
    sizes = data.draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), min_size=1, max_size=32))
    at, units = start, b""
    for gap, size in sizes:
        units += UNIT.pack(at + gap, size, 7)
        at += gap + size
    end = min(data.draw(st.integers(start, start + 1_200)), start + len(log))
    asked = head, log, start, units, end, size_max
    assert framed_in_python(*asked) == compiled.twins.framed(*asked)


@pytest.mark.parametrize(
    "unit", [UNIT.pack(-5, 3, 0), UNIT.pack(99, 3, 0), UNIT.pack(2**62, 3, 0), UNIT.pack(100, -1, 0)]
)
def test_a_place_outside_the_log_is_never_read(unit: bytes) -> None:
    assert compiled.twins.framed(b"head", memoryview(bytes(50)), 100, unit, 150, 1_000) is None
    assert compiled.twins.framed(b"head", memoryview(bytes(50)), 100, UNIT.pack(120, 40, 0), 1_000, 1_000) is None


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
            waiting = [(*entry[:1], *entry[2:]) for entry in store._appender.undispatched]
            results.append((places, waiting, b"".join(map(bytes, store._log.parts))))
            store.abandon()
    assert results[0] == results[1]
