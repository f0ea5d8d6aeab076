"""The end of the log is gone or spoilt: what was synced there is never cut, and what was not always is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.store.kit import SEGMENT_SIZE, START_MS, HandClock, bodies, open_small, send, settle

from cometmq.cli import main
from cometmq.errors import StoreError, StoreNotWritable
from cometmq.store.append import Appended
from cometmq.store.checkpoint import SECOND_AT
from cometmq.store.config import ASYNC_FLUSH
from cometmq.store.engine import Store

GUARDED_SIZE = 60


def segment(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def spoil(root: Path, place: Appended, at: int = 100, data: bytes = b"\xff\xfe") -> None:
    start = place.physical_offset // SEGMENT_SIZE * SEGMENT_SIZE
    patch(segment(root, start), place.physical_offset - start + at, data)


def made(root: Path, count: int, *, clean: bool, step_ms: int = 2000) -> list[Appended]:
    """A store of so many messages that lies idle for a second, and is then stopped or killed."""
    clock = HandClock()
    store = open_small(root, clock=clock)
    places = []
    for number in range(count):
        clock.ms += step_ms
        places.append(send(store, b"%03d" % number * 40, keys=f"k{number}"))
        settle(store)
    clock.ms += 1000
    store.maintain()
    store.close() if clean else store.abandon()
    return places


def as_java_leaves_it(root: Path, data: bytes = bytes(GUARDED_SIZE)) -> None:
    patch(root / "checkpoint", SECOND_AT, data)


def content(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}


def check(root: Path, *more: str) -> int:
    topics = root / "config" / "topics.json"
    topics.parent.mkdir(exist_ok=True)
    topics.write_text("{}")
    config = root.with_name(f"{root.name}.conf")
    config.write_text("maxHashSlotNum=16\nmaxIndexNum=64\nmappedFileSizeCommitLog=4096\n")
    return main(["store", "check" if not more else "repair", str(root), "-c", str(config), *more[1:]])


def opens_for_reading_only(root: Path, hit: int) -> None:
    """However often, and whatever the stop before; nothing of the log is touched, no offset is given twice."""
    before = content(root)
    assert check(root) == 1
    for number in range(3):
        store = open_small(root)
        assert not store.writable and store.damages[0].start == hit, number
        with pytest.raises(StoreNotWritable, match="cometmq store repair"):
            send(store, b"new")
        store.maintain(thorough=True)
        store.abandon() if number == 1 else store.close()
        assert content(root) == before
        assert check(root) == 1


def is_mended(root: Path, count: int, lost: set[int]) -> None:
    """All others are there at their offsets, also after a kill, and new ones stand behind them."""
    assert check(root, "repair", "--apply") == 0
    assert check(root) == 0
    for round_number in range(2):
        store = open_small(root)
        found = bodies(store)
        assert store.writable and len(found) == count + round_number
        for number, body in enumerate(found[:count]):
            assert (b"was damaged" in body) if number in lost else (body == b"%03d" % number * 40), number
        assert send(store, b"new").queue_offset == count + round_number
        settle(store)
        store.abandon()


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("hit", range(4))
def test_a_byte_of_the_last_messages_flips(tmp_path: Path, clean: bool, hit: int) -> None:
    """The newest synced message has the time that the checkpoint knows: it is no proof by its time."""
    root = tmp_path / "store"
    places = made(root, 4, clean=clean)
    spoil(root, places[hit])
    if clean and hit < 3:  # a clean start does not read the log again
        assert check(root) == 1
        (root / "abort").touch()
    opens_for_reading_only(root, places[hit].physical_offset)
    is_mended(root, 4, {hit})


def test_a_spoilt_store_time_makes_no_others_leftovers(tmp_path: Path) -> None:
    """No checksum covers it; those behind it are older than it says, and synced all the same."""
    places = made(tmp_path, 10, clean=False)
    spoil(tmp_path, places[2], at=56, data=(START_MS + 3_600_000).to_bytes(8))
    spoil(tmp_path, places[5])
    store = open_small(tmp_path)
    (found,) = store.damages
    assert (found.start, found.end) == (places[5].physical_offset, places[6].physical_offset)
    store.close()


@pytest.mark.parametrize("java", [False, True], ids=["comet", "java"])
@pytest.mark.parametrize("count", [1, 3])
def test_the_last_messages_are_gone_after_a_clean_stop(tmp_path: Path, count: int, java: bool) -> None:
    """No stop that was clean leaves a torn write. A Java broker's checkpoint has no offset; then the queues know it."""
    root = tmp_path / "store"
    places = made(root, 10, clean=True)
    if java:
        as_java_leaves_it(root)
    hit = places[-count].physical_offset
    patch(segment(root), hit, bytes(sum(places[-1][:2]) - hit))
    opens_for_reading_only(root, hit)
    is_mended(root, 10, set(range(10 - count, 10)))


@pytest.mark.parametrize(("clean", "java"), [(True, False), (False, False), (True, True)])
def test_the_last_files_are_gone(tmp_path: Path, clean: bool, java: bool) -> None:
    root = tmp_path / "store"
    places = made(root, 80, clean=clean)
    if java:
        as_java_leaves_it(root)
    starts = sorted(int(name) for name in content(root))
    assert len(starts) == 5
    for start in starts[-3:]:
        segment(root, start).unlink()
    opens_for_reading_only(root, starts[-3])
    store = open_small(root)
    assert store.max_offset("T", 0) == 80
    kept = [number for number, place in enumerate(places) if place.physical_offset < starts[-3]]
    assert bodies(store) == [b"%03d" % number * 40 for number in kept]
    store.close()
    is_mended(root, 80, set(range(len(kept), 80)))


@pytest.mark.parametrize("known", ["offset", "time", "queues", "queues of a killed one"])
@pytest.mark.parametrize("folder", ["empty", "gone"])
def test_a_log_that_is_gone_is_asked_for(
    tmp_path: Path, folder: str, known: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may only not be mounted. With the loss accepted, queues go on at their offsets."""
    root = tmp_path / "store"
    made(root, 20, clean=known != "queues of a killed one")
    checkpoint = root / "checkpoint"
    if known == "time":
        as_java_leaves_it(root)
    elif known != "offset":
        checkpoint.unlink()
    (root / "commitlog").rename(tmp_path / "away")
    if folder == "empty":
        (root / "commitlog").mkdir()
    queues = {path: path.read_bytes() for path in root.glob("consumequeue/*/*/*")}
    if checkpoint.exists() or folder == "empty":
        assert check(root) == 1
        assert "has no file of the log" in capsys.readouterr().out
    for _ in range(2):
        with pytest.raises(StoreError, match=r"is its disk mounted.*cometmq store repair"):
            open_small(root)
        assert {path: path.read_bytes() for path in queues} == queues
    shutil.copytree(root, tmp_path / "other")
    shutil.rmtree(root / "commitlog")
    (tmp_path / "away").rename(root / "commitlog")  # mounted
    store = open_small(root)
    assert store.writable and len(bodies(store)) == 20
    store.close()

    root = tmp_path / "other"
    assert check(root, "repair", "--apply") == 1
    assert check(root, "repair", "--apply", "--accept-loss") == 0
    for number in range(2):
        store = open_small(root)
        assert (store.max_offset("T", 0), len(bodies(store))) == (20 + number, number)
        assert send(store, b"new").queue_offset == 20 + number
        settle(store)
        store.abandon()


@pytest.mark.parametrize("clean", [True, False])
def test_an_empty_store_is_no_lost_one(tmp_path: Path, clean: bool) -> None:
    for _ in range(3):
        store = open_small(tmp_path)
        store.maintain(thorough=True)
        store.close() if clean else store.abandon()
    shutil.rmtree(tmp_path / "commitlog")
    store = open_small(tmp_path)
    assert send(store, b"x").queue_offset == 0
    store.close()


@pytest.mark.parametrize("checkpoint", ["gone", "zeros", "older than the first copy"])
def test_files_behind_damage_are_proof_without_a_checkpoint(tmp_path: Path, checkpoint: str) -> None:
    root = tmp_path / "store"
    origin = open_small(root)
    older = (root / "checkpoint").read_bytes()[SECOND_AT : SECOND_AT + GUARDED_SIZE]
    origin.close()
    places = made(root, 80, clean=False)
    if checkpoint == "gone":
        (root / "checkpoint").unlink()
    elif checkpoint == "zeros":
        (root / "checkpoint").write_bytes(bytes(4096))
    else:
        as_java_leaves_it(root, older)
    spoil(root, places[3])
    store = open_small(root)
    (found,) = store.damages
    assert found.end == places[4].physical_offset  # those behind it in the same file are there
    store.abandon()
    opens_for_reading_only(root, places[3].physical_offset)
    is_mended(root, 80, {3})


@pytest.mark.parametrize("hit", [0, 7, 14])
def test_nothing_proves_what_no_file_is_behind(tmp_path: Path, hit: int) -> None:
    """Killed, without a checkpoint, and no later file: a tear looks the same."""
    places = made(tmp_path, 15, clean=False)
    (tmp_path / "checkpoint").unlink()
    spoil(tmp_path, places[hit])
    store = open_small(tmp_path)
    assert store.writable and store.max_offset("T", 0) == hit
    store.close()


def test_a_power_cut_may_leave_later_files_and_not_earlier_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under ASYNC_FLUSH the system writes pages in any order: what was not synced is torn, whatever is behind it."""
    clock = HandClock()
    store = open_small(tmp_path, clock=clock, flush_disk_type=ASYNC_FLUSH)
    places = []
    for number in range(80):
        clock.ms += 10
        places.append(send(store, b"%03d" % number * 40))
        store.write()
        store.dispatch()
        if number == 2:
            store.flush_log()
            store.maintain()
    store.abandon()
    spoil(tmp_path, places[3])
    store = open_small(tmp_path, clock=clock, flush_disk_type=ASYNC_FLUSH)
    assert store.writable and not store.damages
    assert store.max_offset("T", 0) == 3
    hit = places[3].physical_offset
    assert "did not stop cleanly" in caplog.text
    torn = last_data(places) - hit
    assert f"{segment(tmp_path)}: {torn:,} bytes from byte {hit} on were cut" in caplog.text
    assert f"{segment(tmp_path, SEGMENT_SIZE)}: " in caplog.text
    store.close()
    caplog.clear()
    open_small(tmp_path, clock=clock).close()
    assert not caplog.text


def last_data(places: list[Appended]) -> int:
    """Where the data of the first segment ends: with the head of its blank."""
    return max(sum(place[:2]) for place in places if place.physical_offset < SEGMENT_SIZE) + 8


def test_a_kill_that_tore_nothing_cuts_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made(tmp_path, 20, clean=False)
    store = open_small(tmp_path)
    assert [record.getMessage() for record in caplog.records] == [f"{tmp_path}: the last broker did not stop cleanly"]
    store.close()


@pytest.mark.parametrize("bit", range(96))
def test_one_unit_that_is_spoilt_is_no_proof(tmp_path: Path, bit: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A Java store, stopped: the last unit of a queue names a place that is not in the log."""
    root = tmp_path / "store"
    made(root, 10, clean=True)
    as_java_leaves_it(root)
    (path,) = root.glob("consumequeue/T/0/*")
    data = bytearray(path.read_bytes())
    data[180 + bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    check(root)
    assert "ok   commitlog" in capsys.readouterr().out
    store = open_small(root)
    assert store.writable and len(bodies(store)) == 10
    store.close()


# A log that follows another


def raw_log(root: Path, sizes: list[int]) -> bytes:
    store = open_small(root)
    for size in sizes:
        send(store, bytes(size), keys="k")
    settle(store)
    end = store.written_offset
    store.close()
    return b"".join(data for _, data in sorted(content(root).items()))[:end]


def followed_and(root: Path, stop: Callable[[Store], None], *parts: bytes) -> Store:
    """A store that took these bytes of a master, synced each, and then stopped; opened again."""
    store = open_small(root)
    followed = store.follow()
    for part in parts:
        followed.take(followed.end, memoryview(part))
        settle(store)
        store.maintain(thorough=True)
    stop(store)
    return open_small(root)


@pytest.mark.parametrize("stop", [Store.close, Store.abandon])
def test_the_beginning_of_a_record_is_no_damage(tmp_path: Path, stop: Callable[[Store], None]) -> None:
    data = raw_log(tmp_path / "master", [50] * 10)
    size = len(data) // 10
    for cut in (1, 7, 8, 9, 91, size - 1, size, size + 1, size * 3 - 5):
        root = tmp_path / f"slave {cut}"
        store = followed_and(root, stop, data[:cut])
        assert store.writable and store.written_offset == cut - cut % size, cut
        store.close()
        assert check(root) == 0


@pytest.mark.parametrize("stop", [Store.close, Store.abandon])
def test_a_slave_that_begins_late_has_lost_nothing(tmp_path: Path, stop: Callable[[Store], None]) -> None:
    store = open_small(tmp_path)
    store.follow().begin_at(3 * SEGMENT_SIZE)
    store.maintain(thorough=True)
    stop(store)
    store = open_small(tmp_path)
    assert store.writable
    store.close()


def test_the_end_of_a_file_without_the_next(tmp_path: Path) -> None:
    """The blank at the end is cut, and the checkpoint says so before: what comes then may be shorter, and be torn."""
    data = raw_log(tmp_path / "master", [3000, 3000])[:SEGMENT_SIZE]
    root = tmp_path / "slave"

    def cut_from_power(store: Store) -> None:
        store.abandon()
        segment(root, SEGMENT_SIZE).unlink()  # prepared, and its name not synced

    store = followed_and(root, cut_from_power, data)
    assert store.writable and store.written_offset < SEGMENT_SIZE - 8
    send(store, b"short")
    store.write()  # and not synced
    store.abandon()
    patch(segment(root), store.written_offset - 10, bytes(10))
    store = open_small(root)
    assert store.writable and len(bodies(store)) == 1
    store.close()
