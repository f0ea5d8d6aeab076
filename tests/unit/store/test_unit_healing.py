"""Bits that flip in the files of queues: every message of the log is served all the same, and the files are mended."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.kit import FILE_UNITS, HandClock, QuickFs, bodies, open_small, read_all, send, settle

from cometmq.broker.loading import read_patiently
from cometmq.errors import QueueDamaged, UnitsDoubted
from cometmq.model.java_hash import tags_code
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.store import unit_healing
from cometmq.store.consume_queue import UNIT, UNIT_SIZE
from cometmq.store.engine import Store
from cometmq.store.reader import ReadStatus, RecordFilter
from cometmq.wire.record import decode_record

COUNT = 25  # of each queue; two files are full, and a third is begun
TAG_BITS = range(12 * 8, UNIT_SIZE * 8)


def queue_file(root: Path, offset: int, topic: str = "T", queue_id: int = 0) -> Path:
    return root / "consumequeue" / topic / str(queue_id) / f"{offset // FILE_UNITS * FILE_UNITS * UNIT_SIZE:020d}"


def flip(root: Path, offset: int, bit: int, topic: str = "T") -> None:
    path = queue_file(root, offset, topic)
    data = bytearray(path.read_bytes())
    data[offset % FILE_UNITS * UNIT_SIZE + bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def spoil(root: Path, offsets: range, by: random.Random) -> None:
    for offset in offsets:
        with queue_file(root, offset).open("r+b") as file:
            file.seek(offset % FILE_UNITS * UNIT_SIZE)
            file.write(by.randbytes(UNIT_SIZE))


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted((root / "consumequeue").rglob("0*")) if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was stopped: two queues, over many files of the log."""
    root = tmp_path_factory.mktemp("made")
    clock = HandClock()
    store = open_small(root, clock=clock)
    for number in range(COUNT * 2):
        clock.ms += 1000
        send(
            store,
            b"%d " % number * 40,
            queue_id=number % 2,
            tags=f"t{number % 3}",
            properties_data=b"TAGS\x01t%d\x02" % (number % 3),
        )
        settle(store)
    store.close()
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    return tmp_path / "store"


def consumed(store: Store, offset: int) -> Iterator[bytes]:
    """What a consumer gets that begins here."""
    while offset < store.max_offset("T", 0):
        found, pieces = read_patiently(store, "T", 0, offset, 32)
        yield from (decode_record(piece).body for piece in pieces)
        offset = found.next_offset


def all_bodies(queue_id: int = 0) -> list[bytes]:
    return [b"%d " % number * 40 for number in range(queue_id, COUNT * 2, 2)]


@pytest.mark.parametrize("offset", [0, 9, 12, COUNT - 1])
@pytest.mark.parametrize("first_read", [0, 5])
def test_every_bit_that_says_where_a_message_stands(root: Path, offset: int, first_read: int) -> None:
    before = files(root)
    for bit in range(12 * 8):
        flip(root, offset, bit)
        store = open_small(root)
        at = max(offset - first_read, 0)
        units = store.quick.units("T", 0, at, 32)
        if units is not None and len(units.units) > (offset - at) * UNIT_SIZE:
            store.quick.framed(b"head", units.units, 0, at)  # never an exception, never other bytes
        found = store.read("T", 0, offset, 1)
        (record,) = store.load_found(found)
        assert (decode_record(record).body, decode_record(record).queue_offset) == (all_bodies()[offset], offset), bit
        assert (bodies(store), bodies(store, queue_id=1)) == (all_bodies(), all_bodies(1)), bit
        store.close()
        assert files(root) == before, bit


def test_it_is_said_once_and_where(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    flip(root, 12, 3)
    store = open_small(root)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert bodies(store) == all_bodies()
    store.close()
    (line,) = caplog.messages
    assert line.startswith(f"{queue_file(root, 12)}: unit 12 of queue 0 of T ")


@pytest.mark.parametrize("seed", range(8))
def test_many_in_a_row(root: Path, seed: int) -> None:
    by, before = random.Random(seed), files(root)
    first = by.randrange(COUNT)
    spoil(root, range(first, min(first + by.randrange(2, 15), COUNT)), by)
    store = open_small(root)
    assert bodies(store) == all_bodies()
    store.close()
    assert files(root) == before


def test_units_of_a_tail_that_is_in_memory_too(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    for number in range(5):
        send(store, b"%d" % number)
    settle(store)
    queue = store._table.queues["T", 0]
    for written in (False, True):
        queue.tail[2 * UNIT_SIZE + 7] ^= 4
        assert bodies(store) == [b"%d" % number for number in range(5)]
        if not written:
            store.maintain()
    flip(tmp_path, 2, 60)
    queue.tail[2 * UNIT_SIZE + 7] ^= 4
    assert len(bodies(store)) == 5
    store.maintain(thorough=True)
    store.close()
    (data,) = files(tmp_path).values()
    assert [unit[:2] for unit in UNIT.iter_unpack(data[:100])] == [(93 * n, 93) for n in range(5)]


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("offset", range(COUNT, 30))
def test_bits_behind_the_last_unit_are_no_message(root: Path, offset: int, killed: bool) -> None:
    for bit in range(offset % 4, UNIT_SIZE * 8, 4):
        flip(root, offset, bit)
        if killed:
            (root / "abort").touch()
        store = open_small(root)
        assert (store.max_offset("T", 0), store.next_offset("T", 0)) == (COUNT, COUNT), bit
        assert bodies(store) == all_bodies()
        store.close()
        with queue_file(root, offset).open("r+b") as file:
            file.seek(offset % FILE_UNITS * UNIT_SIZE)
            file.write(bytes(UNIT_SIZE))


# Lost


def test_a_message_that_the_log_does_not_have_is_passed_over(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_small(root)
    place = store.read("T", 0, 12, 1).ranges[0][0]
    store.close()
    log = root / "commitlog" / f"{place // 4096 * 4096:020d}"
    data = bytearray(log.read_bytes())
    data[place % 4096 : place % 4096 + 40] = bytes(40)
    log.write_bytes(data)
    store = open_small(root)
    wanted = [body for number, body in enumerate(all_bodies()) if number != 12]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert bodies(store) == wanted
            found = store.read("T", 0, 12, 1)
            assert (found.status, found.next_offset) == (ReadStatus.MESSAGE_WAS_REMOVING, 13)
            assert store.quick.framed(b"head", store.quick.units("T", 0, 12, 4).units, 0, 12) is None  # type: ignore[union-attr]
    (line,) = caplog.messages
    assert f"{queue_file(root, 12)}: unit 12 " in line and "cometmq store repair" in line
    flip(root, 11, 40)  # beside it
    assert bodies(store) == wanted
    store.close()


# Where and how it is read


class ColdFs(QuickFs):
    """Nothing is in memory."""

    def in_memory(self, view: memoryview) -> bool:
        return False


@pytest.mark.parametrize("bit", [2, 11, 59, 66, 93])
def test_where_it_is_not_in_memory_who_loads_it_tells(root: Path, bit: int) -> None:
    flip(root, 12, bit)
    store = open_small(root, fs=ColdFs())
    found = store.read("T", 0, 11, 3)
    try:
        pieces = store.load_found(found)
    except UnitsDoubted as doubted:
        assert "message 12" in str(doubted)
        found = store.mended(found)
        pieces = store.load_found(found)
    assert [decode_record(piece).body for piece in pieces] == all_bodies()[11 : 11 + len(pieces)] and len(pieces) >= 1
    assert read_patiently(store, "T", 0, 12, 1)[1] == [store.load_found(store.read("T", 0, 12, 1))[0]]
    store.close()


@pytest.mark.parametrize("bit", [*range(0, 96, 7), 96, 97, 120])
def test_what_is_selected(root: Path, bit: int) -> None:
    """By tag on the unit, by an expression on the record."""
    flip(root, 12, bit)
    store = open_small(root)
    wanted = [body for number, body in enumerate(all_bodies()) if number * 2 % 3 == 0]

    def read(matches: object) -> Iterator[bytes]:
        offset = 0
        while offset < COUNT:
            found = store.read("T", 0, offset, 4, None, matches)  # type: ignore[arg-type]
            yield from (decode_record(piece).body for piece in store.slices(found.ranges))
            offset = found.next_offset

    code = tags_code("t0")
    assert [body for body in read(lambda found: found == code or found < -(1 << 31)) if body in wanted] == wanted
    assert list(read(RecordFilter(lambda record: b"TAGS\x01t0" in bytes(record), 8))) == wanted
    store.close()


def test_times(root: Path) -> None:
    store = open_small(root)
    asked = range(1_700_000_000_000, 1_700_000_000_000 + COUNT * 2_000 + 4_000, 500)
    right = [[store.offset_by_time("T", 0, ms, side) for ms in asked] for side in ("LOWER", "UPPER")]
    store.close()
    for offset in (0, 9, 12, COUNT - 1):
        for bit in (5, 20, 55, 70):
            flip(root, offset, bit)
            store = open_small(root)
            assert store.message_store_time("T", 0, offset) == 1_700_000_000_000 + offset * 2000 + 1000
            assert [[store.offset_by_time("T", 0, ms, side) for ms in asked] for side in ("LOWER", "UPPER")] == right
            store.close()


def test_a_delayed_message_gets_its_time_back(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    for number in range(3):
        store.append_delayed("3", SCHEDULE_TOPIC, 0, b"%d" % number, b"DELAY\x013\x02")
    settle(store)
    store.close()
    before = files(tmp_path)
    flip(tmp_path, 1, 62, SCHEDULE_TOPIC)
    store = open_small(tmp_path)
    assert len(read_all(store, SCHEDULE_TOPIC)) == 3
    assert store.unit_codes(SCHEDULE_TOPIC, 0, 1, 1) == [1_700_000_000_000 + 10_000]
    store.close()
    assert files(tmp_path) == before


# Far away


def test_what_is_too_far_away_is_looked_for_aside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_healing, "WALK_SIZE_MAX", 0)
    flip(root, 12, 3)
    store = open_small(root)
    for _ in range(2):
        with pytest.raises(QueueDamaged, match=r"unit of message 12 of queue 0 of T .*cometmq store repair") as refused:
            store.read("T", 0, 10, 5)
        assert str(queue_file(root, 12)) in str(refused.value)
    assert len(store.read("T", 0, 10, 2).ranges) == 2
    store.maintain()
    assert bodies(store) == all_bodies()
    store.close()
    flip(root, 12, 3)
    store = open_small(root)
    assert decode_record(read_patiently(store, "T", 0, 12, 1)[1][0]).body == all_bodies()[12]
    store.close()


# Retention


@pytest.mark.parametrize("offset", [9, 12, 17])
@pytest.mark.parametrize("bit", [7, 49, 52, 54, 57])
def test_a_damaged_unit_hides_no_message_when_files_expire(root: Path, offset: int, bit: int) -> None:
    (root / "commitlog" / f"{0:020d}").unlink()
    store = open_small(root)
    low, wanted = store.min_offset("T", 0), bodies(store)
    store.close()
    assert 0 < low < COUNT
    flip(root, offset, bit)
    store = open_small(root)
    first = store.read("T", 0, store.min_offset("T", 0), 1)
    assert first.status in (ReadStatus.FOUND, ReadStatus.MESSAGE_WAS_REMOVING)
    if first.status is ReadStatus.MESSAGE_WAS_REMOVING:  # the damaged one says that it is there, and is not
        assert first.next_offset == low
    assert list(consumed(store, low)) == wanted
    store.close()
