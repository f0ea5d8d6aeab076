"""The compiled walk and its pure-Python twin agree on every record, sound or not, cut or damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.columns.records import make_record

from cometmq import compiled
from cometmq.columns import COLUMNS, RecordColumns
from cometmq.columns.twins import make_walk
from cometmq.wire.record import Buffer, decode_records, host_text, pack_host

pytestmark = pytest.mark.skipif(compiled.twins is None, reason="the extension is not built here")

hosts = st.sampled_from([pack_host("1.2.3.4", 5), pack_host("255.255.255.255", 65_535), pack_host("fe80::1", 9)])
property_bytes = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"A", b"\x01", b"\x02", b"x", b"\xc3\xa9", b"\xff"])).map(
        b"".join
    ),
    st.dictionaries(st.text(max_size=4), st.text(max_size=9), max_size=80).map(
        lambda pairs: "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()]).encode()[:30_000]
    ),
)
bodies = st.binary(max_size=40) | st.binary(min_size=60, max_size=200)  # checksums are folded from 64 bytes on
longs = st.integers(-(1 << 63), (1 << 63) - 1)
records = st.builds(
    make_record,
    topic=st.one_of(st.sampled_from([b"a", b"b"]), st.binary(max_size=300)),
    queue=st.integers(-(1 << 31), (1 << 31) - 1),
    offset=st.one_of(st.integers(0, 9), longs),
    body=st.binary(max_size=50),
    properties=property_bytes,
    born_ms=longs,
    store_ms=st.one_of(st.integers(0, 99), longs),
    born_host=hosts,
    store_host=hosts,
    position=st.integers(0, 1 << 40),
    reconsume_times=st.integers(0, 99),
)


def both(data: Buffer, *where: int, **filters: object) -> None:
    results = []
    for pure in (True, False):
        walk = make_walk(COLUMNS, pure=pure, **filters)  # type: ignore[arg-type]
        columns = RecordColumns(COLUMNS, "b", walk)
        seen = walk.add(data, *where)
        size = walk.size
        batch = columns.batch()
        batch.validate(full=True)
        results.append((seen, size, batch))
    (pure_seen, pure_size, pure_batch), (seen, size, batch) = results
    assert tuple(pure_seen) == tuple(seen)
    assert pure_size == size
    assert pure_batch.equals(batch)


@given(st.lists(records, max_size=12))
def test_sound_records(found: list[bytes]) -> None:
    both(b"".join(found))


@given(st.lists(records, max_size=6), st.integers(-2, 12), st.integers(-2, 12))
def test_ranges_and_filters(found: list[bytes], start: int, end: int) -> None:
    both(b"".join(found), 0, -1, -1, start, end, topics=frozenset({b"a"}), from_ms=5, until_ms=80)


@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_damaged_records(found: list[bytes], data: st.DataObject) -> None:
    broken = bytearray(b"".join(found))
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    broken[36:40] = bytes(3) + bytes([broken[39] & 0xFE])  # a body that claims to be packed is another story
    both(bytes(broken[: data.draw(st.integers(0, len(broken)))]))


@given(st.binary(max_size=200), st.integers(-1, 300), st.integers(-1, 300), st.integers(-1, 9))
def test_garbage(data: bytes, at: int, stop: int, base: int) -> None:
    both(data, max(at, 0), stop, base)


@given(st.lists(st.tuples(bodies, property_bytes), max_size=8), st.booleans(), st.data())
def test_segments(found: list[tuple[bytes, bytes]], check_crc: bool, data: st.DataObject) -> None:
    log = bytearray()
    for body, properties in found:
        log += make_record(body=body, properties=properties, position=500 + len(log))
    log += bytes(data.draw(st.integers(0, 100)))
    if log and data.draw(st.booleans()):
        log[data.draw(st.integers(0, len(log) - 1))] ^= 1 << data.draw(st.integers(1, 7))
    both(log, 0, data.draw(st.integers(-1, len(log))), 500, check_crc=check_crc)


@given(st.lists(records, max_size=5))
def test_the_same_as_decoding_one_by_one(found: list[bytes]) -> None:
    columns = RecordColumns(["topic", "queue", "offset", "body", "properties", "born_host"], "b")
    columns.add(b"".join(found))
    assert [tuple(row.values()) for row in columns.batch().to_pylist()] == [
        (r.topic, r.queue_id, r.queue_offset, r.body, list(r.properties.items()), host_text(r.born_host))
        for r in decode_records(b"".join(found))
    ]
