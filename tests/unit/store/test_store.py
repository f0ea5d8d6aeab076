"""The store from outside: what is appended comes back, in order, after clean stops and kills."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.unit.store.kit import (
    HOST,
    SEGMENT_SIZE,
    HandClock,
    QuickFs,
    bodies,
    open_small,
    read_all,
    send,
    settle,
    small_config,
)

from cometmq.errors import MessageRefused, StoreError, StoreLocked
from cometmq.model.java_hash import tags_code
from cometmq.store.config import ASYNC_FLUSH, StoreConfig
from cometmq.store.engine import Store
from cometmq.store.reader import GAP_MAX, ReadStatus
from cometmq.wire.record import pack_host


def test_messages_come_back_as_sent(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    placed = send(
        store, b"hello", queue_id=3, properties_data=b"TAGS\x01A\x02", tags="A", flag=7, sys_flag=1,
        born_time_ms=5, reconsume_times=2, prepared_offset=9,
    )  # fmt: skip
    settle(store)
    (record,) = read_all(store, queue_id=3)
    assert (record.body, record.flag, record.sys_flag, record.born_time_ms) == (b"hello", 7, 1, 5)
    assert (record.reconsume_times, record.prepared_offset, record.queue_id) == (2, 9, 3)
    assert (record.physical_offset, record.size, record.queue_offset, record.store_time_ms) == placed
    assert record.properties == {"TAGS": "A"}
    assert record.store_host == HOST
    store.close()


@pytest.mark.parametrize("clean", [True, False])
def test_reopen(tmp_path: Path, clean: bool) -> None:
    store = open_small(tmp_path)
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    for number in range(100):
        body = bytes([number]) * (number % 50)
        send(store, body, queue_id=number % 2, properties_data=b"KEYS\x01k%d\x02" % number, keys=f"k{number}")
        sent[number % 2].append(body)
    settle(store)
    before = list(store.queues()), store.written_offset
    store.close() if clean else store.abandon()
    store = open_small(tmp_path)
    assert store.recovered_cleanly is clean
    assert (list(store.queues()), store.written_offset) == before
    assert {queue_id: bodies(store, queue_id=queue_id) for queue_id in sent} == sent
    (place,) = store.query("T", "k42", 10, 0, 1 << 60)
    record = store.record_at(place[0])
    assert record is not None and len(record) == place[1]
    assert send(store, b"more").queue_offset == 50
    store.close()
    assert not (tmp_path / "abort").exists()


def test_unwritten_is_lost_and_written_is_not(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    send(store, b"written")
    store.write()
    send(store, b"only in memory")
    store.abandon()
    store = open_small(tmp_path)
    assert bodies(store) == [b"written"]
    assert send(store, b"next").queue_offset == 1
    store.close()


def test_sync_flush_shows_only_flushed_bytes(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    placed = send(store, b"x")
    store.write()
    assert store.dispatch() == []
    assert store.confirm_offset == 0
    assert store.max_offset("T", 0) == 0 and store.next_offset("T", 0) == 1
    assert store.record_at(placed.physical_offset) is None
    store.flush_log()
    assert [tuple(arrival) for arrival in store.dispatch()] == [("T", 0, 1)]
    assert store.record_at(placed.physical_offset, placed.size) is not None
    store.close()


def test_async_flush_shows_written_bytes(tmp_path: Path) -> None:
    store = open_small(tmp_path, flush_disk_type=ASYNC_FLUSH)
    send(store, b"x")
    assert store.dispatch() == []
    store.write()
    assert store.dispatch() and bodies(store) == [b"x"]
    assert store.flushed_offset == 0
    store.close()


def test_a_message_that_does_not_fit_goes_to_the_next_segment(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    first = send(store, b"a" * 3000)
    second = send(store, b"b" * 3000)
    assert second.physical_offset == SEGMENT_SIZE
    settle(store)
    data = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    blank = SEGMENT_SIZE - first.size
    assert data[first.size : first.size + 8] == blank.to_bytes(4, "big") + bytes.fromhex("cbd43194")
    assert not any(data[first.size + 8 :])
    assert [len(body) for body in bodies(store)] == [3000, 3000]
    store.close()


def test_a_record_may_leave_exactly_the_blank(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    overhead = send(store, b"", topic="Q").size
    store.close()
    store = open_small(tmp_path / "b")
    fits = send(store, bytes(SEGMENT_SIZE - overhead - 8), topic="Q")
    assert fits.physical_offset == 0
    settle(store)
    with pytest.raises(MessageRefused, match="mappedFileSizeCommitLog"):
        send(store, bytes(SEGMENT_SIZE - overhead - 7), topic="Q")
    assert send(store, b"", topic="Q").queue_offset == 1
    store.close()


def test_refusals_use_nothing_up(tmp_path: Path) -> None:
    store = open_small(tmp_path, max_message_size=100)
    with pytest.raises(MessageRefused, match="maxMessageSize"):
        send(store, bytes(101))
    with pytest.raises(MessageRefused, match="properties"):
        send(store, b"", properties_data=bytes(32_768))
    with pytest.raises(MessageRefused, match="transaction"):
        store.append_batch("T", 0, [(0, b"", b"", None, None, None)], 4)
    with pytest.raises(MessageRefused, match="empty"):
        store.append_batch("T", 0, [])
    with pytest.raises(MessageRefused, match="maxMessageSize"):
        store.append_batch("T", 0, [(0, bytes(60), b"", None, None, None)] * 2)
    assert send(store, b"ok") == (0, 94, 0, HandClock().ms)
    store.close()


@pytest.mark.parametrize("topic", ["", "..", "a/b", "../../x", "a\0b", "t" * 128, "%RETRY%" + "g" * 249, "é"])
def test_names_that_are_no_folders(tmp_path: Path, topic: str) -> None:
    store = open_small(tmp_path / "store")
    with pytest.raises(MessageRefused, match="specified topic"):
        send(store, b"x", topic=topic)
    with pytest.raises(MessageRefused, match="specified topic"):
        store.append_batch(topic, 0, [(0, b"", b"", None, None, None)])
    with pytest.raises(MessageRefused, match="queue id"):
        send(store, b"x", queue_id=-1)
    assert send(store, b"x").physical_offset == 0
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_batch_stays_in_one_segment(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    send(store, bytes(3000))
    placed = store.append_batch("T", 0, [(n, bytes([n]) * 300, b"", None, None, f"u{n}") for n in range(3)], 0, 1, HOST)
    assert placed.queue_offset == 1 and len(placed.physical_offsets) == 3
    assert placed.physical_offsets[0] == SEGMENT_SIZE
    settle(store)
    assert [record.flag for record in read_all(store)][1:] == [0, 1, 2]
    store.close()


def test_transactions_take_no_queue_offset(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    assert send(store, b"half", sys_flag=4).queue_offset == 0
    assert send(store, b"rolled back", sys_flag=12).queue_offset == 0
    assert send(store, b"committed", sys_flag=8).queue_offset == 0
    settle(store)
    assert bodies(store) == [b"committed"]
    store.abandon()
    store = open_small(tmp_path)
    assert bodies(store) == [b"committed"]
    store.close()


def test_ipv6_hosts(tmp_path: Path) -> None:
    host = pack_host("::1", 9)
    store = Store.open(small_config(tmp_path), store_host=host)
    store.append("T", 0, b"x", b"", sys_flag=0, born_host=host)
    store.append("T", 0, b"y", b"", sys_flag=0x10, born_host=HOST)
    settle(store)
    store.abandon()
    store = Store.open(small_config(tmp_path), store_host=host)
    one, other = read_all(store)
    assert (one.sys_flag, one.born_host, one.store_host) == (0x30, host, host)
    assert (other.sys_flag, other.born_host) == (0x20, HOST)
    assert store.message_store_time("T", 0, 0) == one.store_time_ms
    store.close()


def test_long_topic_is_a_v2_record(tmp_path: Path) -> None:
    topic = "%RETRY%" + "g" * 200
    store = open_small(tmp_path)
    send(store, b"x", topic=topic)
    settle(store)
    store.abandon()
    store = open_small(tmp_path)
    assert read_all(store, topic)[0].magic == 0xDAA320AB
    store.close()


def test_store_time_never_decreases(tmp_path: Path) -> None:
    clock = HandClock()
    store = open_small(tmp_path, clock=clock)
    first = send(store, b"a")
    clock.ms -= 3_600_000
    assert send(store, b"b").store_time_ms == first.store_time_ms
    settle(store)
    store.close()
    store = open_small(tmp_path, clock=clock)
    assert send(store, b"c").store_time_ms == first.store_time_ms
    store.close()


def test_second_open_is_refused(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    with pytest.raises(StoreLocked, match="lock"):
        open_small(tmp_path)
    store.close()
    open_small(tmp_path).close()


def test_wrong_segment_size_is_refused(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    send(store, b"x")
    store.close()
    with pytest.raises(StoreError, match="mappedFileSizeCommitLog"):
        open_small(tmp_path, mapped_file_size_commit_log=8192)
    store = open_small(tmp_path)
    assert bodies(store) == [b"x"]
    store.close()


def test_flush_beside_append(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    stop = threading.Event()
    failures: list[BaseException] = []

    def flush() -> None:
        try:
            while not stop.is_set():
                assert store.flush_log() <= store.written_offset
        except BaseException as failure:
            failures.append(failure)

    worker = threading.Thread(target=flush)
    worker.start()
    for number in range(2000):
        send(store, b"%d" % number)
        store.write()
        store.dispatch()
    stop.set()
    worker.join()
    assert failures == []
    settle(store)
    assert bodies(store) == [b"%d" % number for number in range(2000)]
    store.close()


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, ReadStatus.OFFSET_TOO_SMALL, 0),
        (0, ReadStatus.FOUND, 3),
        (2, ReadStatus.FOUND, 3),
        (3, ReadStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, ReadStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
def test_read_edges(tmp_path: Path, offset: int, status: ReadStatus, next_offset: int) -> None:
    store = open_small(tmp_path)
    for _ in range(3):
        send(store, b"x")
    settle(store)
    result = store.read("T", 0, offset, 32)
    assert (result.status, result.next_offset, result.min_offset, result.max_offset) == (status, next_offset, 0, 3)
    assert store.read("absent", 0, 5, 32).status is ReadStatus.NO_MESSAGE_IN_QUEUE
    store.close()


def test_read_limits(tmp_path: Path) -> None:
    store = open_small(tmp_path, mapped_file_size_consume_queue=2000 * 20, mapped_file_size_commit_log=1 << 20)
    for number in range(900):
        send(store, b"x" * 400, tags=str(number))
    settle(store)
    assert len(store.read("T", 0, 0, 100).ranges) == 32
    assert len(store.read("T", 0, 0, 5).ranges) == 5
    assert len(store.read("T", 0, 0, 32, 1000).ranges) == 2
    assert len(store.read("T", 0, 0, 32, 1).ranges) == 1  # one always comes
    filtered = store.read("T", 0, 0, 32, None, tags_code("799").__eq__)
    assert (filtered.status, filtered.next_offset) == (ReadStatus.FOUND, 800)
    missed = store.read("T", 0, 0, 32, None, tags_code("800").__eq__)
    assert (missed.status, missed.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 800)
    store.close()


class EvictedFs(QuickFs):
    """Nothing that was written is in memory any more."""

    def in_memory(self, view: memoryview) -> bool:
        return False


def test_slices_and_load_agree(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    for number in range(30):
        send(store, bytes([number]) * 400)
    settle(store)
    result = store.read("T", 0, 0, 10)
    assert b"".join(store.slices(result.ranges)) == b"".join(store.load(result.ranges))
    assert not result.cold
    store.close()
    store = open_small(tmp_path, fs=EvictedFs())
    result = store.read("T", 0, 0, 10)
    assert result.cold
    assert len(b"".join(store.load(result.ranges))) == result.size
    store.close()


class CountingFs(EvictedFs):
    """Counts reads."""

    reads = 0

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self.reads += 1
        return super().pread(fd, size, offset)


@pytest.mark.parametrize(("others", "size", "reads"), [(3, 400, 1), (1, GAP_MAX, 8)])
def test_what_stands_close_together_is_read_at_once(tmp_path: Path, others: int, size: int, reads: int) -> None:
    fs = CountingFs()
    store = open_small(tmp_path, fs=fs, mapped_file_size_commit_log=1 << 20)
    for number in range(8):
        send(store, bytes([number]) * 400)
        for _ in range(others):
            send(store, b"of another queue" + bytes(size), queue_id=1)
    settle(store)
    ranges = store.read("T", 0, 0, 8).ranges
    fs.reads = 0
    assert [bytes(one) for one in store.slices(ranges)] == store.load(ranges) and fs.reads == reads
    store.close()


def test_record_at_takes_any_offset(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    placed = [send(store, b"x" * 100) for _ in range(60)]
    settle(store)
    starts = {place.physical_offset for place in placed}
    for offset in range(-10, store.written_offset + 100):
        assert (store.record_at(offset) is not None) is (offset in starts)
    store.close()


def test_deleted_topic_starts_at_zero(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    for _ in range(25):
        send(store, b"old")
    settle(store)
    store.maintain()
    assert store.delete_topic("T") == 1
    assert not (tmp_path / "consumequeue" / "T").exists()
    assert store.max_offset("T", 0) == 0
    assert send(store, b"new").queue_offset == 0
    settle(store)
    assert bodies(store) == [b"new"]
    store.abandon()
    store = open_small(tmp_path)
    assert bodies(store) == [b"new"]
    store.close()
    store = open_small(tmp_path)
    assert bodies(store) == [b"new"]
    store.close()


def test_topic_deleted_before_a_checkpoint_stays_deleted(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    send(store, b"old")
    send(store, b"other", topic="U")
    settle(store)
    store.delete_topic("T")
    store.maintain(thorough=True)
    store.abandon()
    store = open_small(tmp_path)
    assert store.max_offset("T", 0) == 0 and bodies(store, "U") == [b"other"]
    store.close()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_many_queues_need_few_descriptors(tmp_path: Path) -> None:
    before = descriptors()
    store = open_small(tmp_path, mapped_file_size_commit_log=1 << 20)
    for number in range(1000):
        send(store, b"x", topic=f"T{number % 50}", queue_id=number // 50)
    settle(store)
    store.maintain(thorough=True)
    store.close()
    store = open_small(tmp_path, mapped_file_size_commit_log=1 << 20)
    assert sum(high - low for _topic, _queue_id, low, high in store.queues()) == 1000
    for number in range(1000):
        assert store.read(f"T{number % 50}", number // 50, 0, 1).status is ReadStatus.FOUND
    assert descriptors() - before < 400
    store.close()


@pytest.mark.parametrize("clean", [True, False])
def test_nothing_stays_open(tmp_path: Path, clean: bool) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        store = open_small(tmp_path)
        for _ in range(40):
            send(store, bytes(300), keys="k")
        settle(store)
        read_all(store)
        store.close() if clean else store.abandon()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_queue_with_a_message_under_way_is_not_cleaned_away(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    send(store, bytes(3000))
    send(store, bytes(3000), topic="Other")
    settle(store)
    store._log.drop_segment(0)
    send(store, b"acknowledged soon")
    assert store.clean_expired_queues() == 0
    settle(store)
    assert bodies(store) == [b"acknowledged soon"]
    store.close()


def test_a_pull_looks_at_a_bounded_part_of_the_queue(tmp_path: Path) -> None:
    with_files = {"mapped_file_size_consume_queue": 5_000 * 20, "mapped_file_size_commit_log": 1 << 20}
    store = open_small(tmp_path, **with_files)
    for _ in range(5_000):
        send(store, b"x")
    settle(store)
    found = store.read("T", 0, 0, 0x7FFF_FFFF, matches=lambda _code: False)
    assert found.next_offset == 800  # maxFilterMessageSize
    store.close()


def test_the_log_takes_its_room_at_once_and_queues_and_index_as_they_fill(tmp_path: Path) -> None:
    """Files have the original's sizes: of queues 6 MB, of an index 420 MB."""
    config = StoreConfig(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20)
    store = Store.open(config, store_host=HOST, fs=QuickFs(), clock=HandClock())
    send(store, b"x", keys="k")
    settle(store)
    assert store.maintain(thorough=True)

    def file_of(folder: str) -> tuple[int, int]:
        first = min(path for path in (tmp_path / folder).rglob("*") if path.is_file())
        return first.stat().st_size, first.stat().st_blocks * 512

    log_size, log_room = file_of("commitlog")
    assert log_size == 1 << 20 and log_room >= log_size
    for folder, size in (("consumequeue", 300_000 * 20), ("index", 40 + 5_000_000 * 4 + 20_000_000 * 20)):
        file_size, room = file_of(folder)
        assert file_size == size and 0 < room < 1 << 20
    store.close()


def test_a_spare_segment_is_never_the_one_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_small(tmp_path)
    log = store._log
    seal = log._seal
    beside = threading.Thread(target=log.prepare_spare)

    def seal_slowly() -> None:
        beside.start()
        beside.join(0.2)
        seal()

    send(store, bytes(3700))
    monkeypatch.setattr(log, "_seal", seal_slowly)
    send(store, bytes(3700))
    beside.join()
    assert log._spare is None or log._spare.start == log.limit
    store.close()
