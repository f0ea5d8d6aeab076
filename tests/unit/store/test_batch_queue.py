"""Queues of batches: one unit per batch, as many offsets as messages."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from cometmq.broker.loading import read_patiently
from cometmq.errors import MessageRefused, StoreError
from cometmq.store.batch_queue import BATCH_UNIT_SIZE, COUNT_MAX
from cometmq.store.dispatch import Arrival
from cometmq.store.engine import Store
from cometmq.store.reader import ReadStatus
from cometmq.store.time_search import LOWER, UPPER
from cometmq.wire.record import decode_record

from .batch_kit import TOPIC, open_batches, pull_all, put_batch, units_on_disk
from .kit import FILE_UNITS, HOST, START_MS, HandClock, QuickFs, bodies, open_small, send, settle, small_config


def test_a_batch_is_one_record_and_takes_an_offset_for_each_message(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    assert [put_batch(store, count).queue_offset for count in (3, 1, 5)] == [0, 3, 4]
    store.write()
    store.flush_log()
    assert store.dispatch() == [Arrival(TOPIC, 0, 9)]
    assert (store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0), store.next_offset(TOPIC, 0)) == (0, 9, 9)
    records = pull_all(store)
    assert [record.queue_offset for record in records] == [0, 3, 4]
    assert [record.properties["INNER_BASE"] for record in records] == ["0", "3", "4"]
    assert list(store.queues()) == [(TOPIC, 0, 0, 9)]
    store.close()
    assert not (tmp_path / "consumequeue" / TOPIC).exists()


def test_the_units_bytes(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    first, second = put_batch(store, 3, TAGS="blue"), put_batch(store, 2)
    settle(store)
    store.close()
    path = tmp_path / "batchconsumequeue" / TOPIC / "0" / ("0" * 20)
    assert path.stat().st_size == FILE_UNITS * 46
    blue = 3027034  # "blue".hashCode()
    assert units_on_disk(tmp_path) == [
        (first.physical_offset, first.size, blue, START_MS, 0, 3, -1, 0),
        (second.physical_offset, second.size, 0, START_MS, 3, 2, -1, 0),
    ]


def test_a_single_message_is_a_batch_of_one(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    put_batch(store, 2)
    assert send(store, b"alone", TOPIC).queue_offset == 2
    store.append_batch(TOPIC, 0, [(0, b"x", b"", None, None, None), (0, b"y", b"", None, None, None)])
    assert put_batch(store, 2).queue_offset == 5
    settle(store)
    assert [record.body for record in pull_all(store)] == [b"b", b"alone", b"x", b"y", b"b"]
    assert store.max_offset(TOPIC, 0) == 7


def test_an_empty_queue_begins_before_its_first_message(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    assert (store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)) == (-1, 0)
    result = store.read(TOPIC, 0, 0, 32)
    assert (result.status, result.next_offset, result.min_offset) == (ReadStatus.NO_MESSAGE_IN_QUEUE, 0, -1)
    assert store.offset_by_time(TOPIC, 0, START_MS) == 0
    assert store.earliest_store_time(TOPIC, 0) == -1
    assert store.message_store_time(TOPIC, 0, 0) == -1
    assert store.min_offset("plain", 0) == 0


@pytest.mark.parametrize(
    ("offset", "max_count", "next_offset", "found"),
    [
        (0, 1, 3, [0]),  # the first is always given
        (0, 5, 3, [0]),
        (0, 6, 6, [0, 3]),
        (1, 6, 6, [0, 3]),  # a pull from inside gets the whole batch
        (2, 1, 3, [0]),
        (5, 32, 9, [3, 6]),
        (8, 32, 9, [6]),
    ],
)
def test_how_much_a_pull_gets(tmp_path: Path, offset: int, max_count: int, next_offset: int, found: list[int]) -> None:
    store = open_batches(tmp_path)
    placed = {put_batch(store, 3).physical_offset: base for base in (0, 3, 6)}
    settle(store)
    result = store.read(TOPIC, 0, offset, max_count)
    assert (result.status, result.next_offset) == (ReadStatus.FOUND, next_offset)
    assert [placed[at] for at, _size in result.ranges] == found


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, ReadStatus.OFFSET_TOO_SMALL, 0),
        (6, ReadStatus.OFFSET_OVERFLOW_ONE, 6),
        (7, ReadStatus.OFFSET_OVERFLOW_BADLY, 6),
    ],
)
def test_a_pull_out_of_bounds(tmp_path: Path, offset: int, status: ReadStatus, next_offset: int) -> None:
    store = open_batches(tmp_path)
    put_batch(store, 3), put_batch(store, 3)
    settle(store)
    result = store.read(TOPIC, 0, offset, 32)
    assert (result.status, result.next_offset) == (status, next_offset)


def test_a_pull_stops_at_32_messages_and_at_its_bytes(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    for _ in range(5):
        put_batch(store, 20, b"x" * 300)
    settle(store)
    assert store.read(TOPIC, 0, 0, 100).next_offset == 40  # 20 are fewer than 32, so one more
    assert store.read(TOPIC, 0, 0, 100, 500).next_offset == 20
    assert len(pull_all(store, max_count=1)) == 5


def test_a_filter_looks_at_the_tags_of_the_batch(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    put_batch(store, 2), put_batch(store, 2, TAGS="blue"), put_batch(store, 2)
    settle(store)
    result = store.read(TOPIC, 0, 0, 32, None, lambda code: code != 0)
    assert (len(result.ranges), result.next_offset) == (1, 6)
    result = store.read(TOPIC, 0, 0, 32, None, lambda code: False)
    assert (result.status, result.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 6)


def test_a_filter_that_matches_nothing_looks_at_so_many_units(tmp_path: Path) -> None:
    store = open_batches(tmp_path, max_filter_message_size=46 * 4)
    for _ in range(20):
        put_batch(store, 1)
    settle(store)
    assert store.read(TOPIC, 0, 0, 1, None, lambda code: False).next_offset == 4
    assert store.read(TOPIC, 0, 0, 9, None, lambda code: False).next_offset == 9
    assert store.read(TOPIC, 0, 0, 99, None, lambda code: False).next_offset == FILE_UNITS  # one file at a time


def test_times(tmp_path: Path) -> None:
    clock = HandClock()
    store = open_batches(tmp_path, clock)
    for number in range(25):  # three files
        clock.ms = START_MS + 10 * number
        put_batch(store, 2)
    settle(store)

    def at(ms: int, boundary: str = LOWER) -> int:
        return store.offset_by_time(TOPIC, 0, START_MS + ms, boundary)  # type: ignore[arg-type]

    assert [at(ms) for ms in (-5, 0, 1, 10, 45, 95, 100, 239, 240, 999)] == [0, 0, 2, 2, 10, 18, 20, 48, 48, 48]
    assert at(45, UPPER) in (8, 10)
    assert at(999, UPPER) == 48
    assert store.earliest_store_time(TOPIC, 0) == START_MS
    assert store.message_store_time(TOPIC, 0, 7) == START_MS + 30
    assert store.message_store_time(TOPIC, 0, 50) == -1


@pytest.mark.parametrize("count", [COUNT_MAX + 1, -COUNT_MAX - 2])
def test_a_count_that_does_not_fit_is_refused(tmp_path: Path, count: int) -> None:
    store = open_batches(tmp_path)
    with pytest.raises(MessageRefused, match="messages"):
        put_batch(store, count)
    assert put_batch(store, COUNT_MAX).queue_offset == 0
    assert put_batch(store, 1).queue_offset == COUNT_MAX
    settle(store)
    assert [record.queue_offset for record in pull_all(store)] == [0, COUNT_MAX]


def test_a_plain_topic_takes_no_inner_batch(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    with pytest.raises(MessageRefused, match=r"queue\.type=BatchCQ"):
        put_batch(store, 2, topic="plain")
    assert store.next_offset("plain", 0) == 0


def test_a_prepared_batch_takes_no_offset(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    store.append_inner_batch(TOPIC, 0, b"half", {"INNER_NUM": "2"}, 2, 0x84)
    assert put_batch(store, 2).queue_offset == 0
    settle(store)
    assert [record.body for record in pull_all(store)] == [b"b"]


def test_it_is_found_by_its_keys(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    placed = put_batch(store, 2, KEYS="k1 k2", UNIQ_KEY="U7")
    settle(store)
    for key in ("k1", "k2", "U7"):
        assert store.query(TOPIC, key, 8, 0, 1 << 42) == [(placed.physical_offset, placed.size)]


def test_a_refused_batch_uses_nothing_up(tmp_path: Path) -> None:
    store = open_batches(tmp_path, max_message_size=100)
    with pytest.raises(MessageRefused):
        put_batch(store, 2, b"x" * 101)
    with pytest.raises(MessageRefused):
        put_batch(store, 2, KEYS="k" * 32_768)
    assert put_batch(store, 2).queue_offset == 0


def test_a_file_size_that_cuts_units_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="mapperFileSizeBatchConsumeQueue"):
        open_small(tmp_path, mapper_file_size_batch_consume_queue=45)


# --- restarts


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("maintained", [True, False])
def test_everything_is_there_after_a_restart(tmp_path: Path, clean: bool, maintained: bool) -> None:
    store = open_batches(tmp_path)
    for number in range(25):
        put_batch(store, number % 4 + 1, b"batch %d" % number)
        send(store, b"alone %d" % number, TOPIC, 1)
        send(store, b"plain %d" % number)
    settle(store)
    before = pull_all(store), pull_all(store, 1), bodies(store), list(store.queues())
    if maintained:
        store.maintain(thorough=True)
    if clean:
        store.close()
    else:
        store.abandon()
    store = open_batches(tmp_path)
    assert (pull_all(store), pull_all(store, 1), bodies(store)) == before[:3]
    assert sorted(store.queues()) == sorted(before[3])
    end = store.max_offset(TOPIC, 0)
    assert put_batch(store, 2).queue_offset == end == sum(number % 4 + 1 for number in range(25))
    settle(store)
    assert pull_all(store)[-1].queue_offset == end
    store.close()


def test_units_that_point_behind_the_log_are_cut(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    put_batch(store, 3)
    settle(store)
    store.maintain(thorough=True)
    known = (tmp_path / "checkpoint").read_bytes()
    last = put_batch(store, 4)
    settle(store)
    store.maintain(thorough=True)
    store.abandon()
    (tmp_path / "checkpoint").write_bytes(known)  # the power was cut, and what was not synced is torn
    log = tmp_path / "commitlog" / ("0" * 20)
    data = bytearray(log.read_bytes())
    data[last.physical_offset : last.physical_offset + last.size] = bytes(last.size)
    log.write_bytes(data)
    store = open_batches(tmp_path)
    assert (store.max_offset(TOPIC, 0), store.next_offset(TOPIC, 0)) == (3, 3)
    assert put_batch(store, 5).queue_offset == 3
    settle(store)
    store.close()
    assert [unit[4:6] for unit in units_on_disk(tmp_path)] == [(0, 3), (3, 5)]


@pytest.mark.parametrize(
    "lost", [("consumequeue", "batchconsumequeue"), ("batchconsumequeue", "consumequeue", "index")]
)
def test_lost_folders_are_rebuilt_the_same(tmp_path: Path, lost: tuple[str, ...]) -> None:
    store = open_batches(tmp_path)
    for number in range(30):
        put_batch(store, number % 3 + 1)
        send(store, b"plain")
    settle(store)
    store.close()
    before = units_on_disk(tmp_path)
    for name in lost:
        shutil.rmtree(tmp_path / name)
    open_batches(tmp_path).close()
    assert units_on_disk(tmp_path) == before


def test_a_store_of_batches_alone_opens_quickly(tmp_path: Path) -> None:
    """The folder of the plain queues may be absent in a store of the original."""
    store = open_batches(tmp_path)
    put_batch(store, 3)
    settle(store)
    store.close()
    shutil.rmtree(tmp_path / "consumequeue")
    store = open_batches(tmp_path)
    assert store.max_offset(TOPIC, 0) == 3


def test_what_stands_on_disk_decides_the_kind(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    put_batch(store, 3)
    settle(store)
    store.close()
    store = open_small(tmp_path, mapper_file_size_batch_consume_queue=FILE_UNITS * 46)  # its topic is forgotten
    assert store.max_offset(TOPIC, 0) == 3
    assert send(store, b"alone", TOPIC).queue_offset == 3
    settle(store)
    assert len(pull_all(store)) == 2
    store.close()
    assert not (tmp_path / "consumequeue" / TOPIC).exists()


# --- going


def expire_all(store: Store, clock: HandClock) -> None:
    """Let all files of the log go but the last."""
    before, clock.ms = clock.ms, time.time_ns() // 1_000_000 + 3_600_000  # the age of a file is real
    store.delete_expired_by_hand()
    while store.clean_expired():
        store.delete_expired_by_hand()
    clock.ms = before


@pytest.mark.parametrize("clean", [True, False])
def test_a_deleted_topic_starts_at_0(tmp_path: Path, clean: bool) -> None:
    store = open_batches(tmp_path)
    send(store, b"first", "plain")
    put_batch(store, 3), put_batch(store, 3, queue_id=1)
    settle(store)
    store.maintain(thorough=True)
    assert store.delete_topic(TOPIC) == 2
    assert not (tmp_path / "batchconsumequeue" / TOPIC).exists()
    assert store.max_offset(TOPIC, 0) == 0
    store.maintain()
    if clean:
        store.close()
    else:
        store.abandon()
    store = open_batches(tmp_path)
    assert (store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)) == (-1, 0)
    assert put_batch(store, 2).queue_offset == 0
    settle(store)
    assert len(pull_all(store)) == 1
    store.abandon()
    assert [record.queue_offset for record in pull_all(open_batches(tmp_path))] == [0]


def test_a_topic_deleted_while_a_batch_is_under_way(tmp_path: Path) -> None:
    store = open_batches(tmp_path)
    put_batch(store, 3)
    store.delete_topic(TOPIC)
    settle(store)
    assert store.max_offset(TOPIC, 0) == 0
    store.close()


def test_retention_moves_the_first_offset(tmp_path: Path) -> None:
    clock = HandClock()
    store = open_batches(tmp_path, clock, file_reserved_time=0)
    for _ in range(40):
        put_batch(store, 3, b"x" * 500)
        settle(store)
    store.maintain()
    files = len(list((tmp_path / "batchconsumequeue" / TOPIC / "0").iterdir()))
    assert files == 4
    expire_all(store, clock)
    low = store.min_offset(TOPIC, 0)
    assert 0 < low < store.max_offset(TOPIC, 0) == 120
    assert low % 3 == 0
    records = pull_all(store)
    assert (records[0].queue_offset, records[-1].queue_offset) == (low, 117)
    assert store.read(TOPIC, 0, 0, 32).next_offset == low
    assert store.earliest_store_time(TOPIC, 0) == START_MS
    assert len(list((tmp_path / "batchconsumequeue" / TOPIC / "0").iterdir())) < files
    store.close()
    store = open_batches(tmp_path)
    assert (store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)) == (low, 120)


def test_a_queue_of_which_nothing_is_left_goes_by_hand(tmp_path: Path) -> None:
    clock = HandClock()
    store = open_batches(tmp_path, clock, file_reserved_time=0)
    put_batch(store, 3)
    for _ in range(30):
        send(store, b"x" * 500)
    settle(store)
    store.maintain()
    expire_all(store, clock)
    assert (store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)) == (3, 3)
    put_batch(store, 1)
    assert store.clean_expired_queues() == 0  # one is under way
    settle(store)
    assert [record.queue_offset for record in pull_all(store)] == [3]


def test_a_batch_of_a_topic_that_nobody_knows_makes_a_queue_of_batches(tmp_path: Path) -> None:
    """As after a kill of a slave that had the batch and not yet the topic's settings."""
    store = open_batches(tmp_path)
    put_batch(store, 3)
    settle(store)
    store.maintain()
    store.abandon()
    units = units_on_disk(tmp_path)
    shutil.rmtree(tmp_path / "batchconsumequeue")
    sizes = {"mapper_file_size_batch_consume_queue": FILE_UNITS * BATCH_UNIT_SIZE}
    config = small_config(tmp_path, **sizes)
    Store.open(config, store_host=HOST, clock=HandClock(), is_batch_topic=lambda topic: None).close()
    assert units_on_disk(tmp_path) == units != []
    assert not list(tmp_path.glob("consumequeue/B/*"))


# Bits that flip in the files


@pytest.mark.parametrize("number", [0, 4, FILE_UNITS - 1, FILE_UNITS + 2, FILE_UNITS + 5])
@pytest.mark.parametrize("is_cold", [False, True])
def test_a_unit_with_a_flipped_bit_loses_no_batch(tmp_path: Path, number: int, is_cold: bool) -> None:
    made = tmp_path / "made"
    store = open_batches(made)
    for at in range(FILE_UNITS + 6):
        put_batch(store, 1 + at % 4, b"%d " % at * 20)
        put_batch(store, 2, b"another queue", queue_id=1)
    settle(store)
    records, end = pull_all(store), store.max_offset(TOPIC, 0)
    store.close()
    whole = units_on_disk(made)
    is_last = number == FILE_UNITS + 5
    for bit in range(number % 5, BATCH_UNIT_SIZE * 8, 5):
        byte = bit // 8
        if 12 <= byte < 28 or byte >= 38 or (is_last and byte >= 36):
            continue  # tags code, store time, what nobody reads; and the count of the last, which nothing else tells
        root = tmp_path / "flipped"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(made, root)
        path = root / "batchconsumequeue" / TOPIC / "0" / f"{number // FILE_UNITS * FILE_UNITS * BATCH_UNIT_SIZE:020d}"
        data = bytearray(path.read_bytes())
        data[number % FILE_UNITS * BATCH_UNIT_SIZE + byte] ^= 1 << bit % 8
        path.write_bytes(data)
        store = open_batches(root, fs=ColdFs() if is_cold else None)
        assert store.max_offset(TOPIC, 0) == end, bit
        found: list[bytes] = []
        offset = store.min_offset(TOPIC, 0)
        while offset < end:
            result, pieces = read_patiently(store, TOPIC, 0, offset, 7)
            found += [decode_record(piece).body for piece in pieces]
            assert result.next_offset > offset, bit
            offset = result.next_offset
        assert found == [record.body for record in records], bit
        store.close()
        assert units_on_disk(root) == whole, bit


class ColdFs(QuickFs):
    """Nothing is in memory."""

    def in_memory(self, view: memoryview) -> bool:
        return False
