"""Opening what a crash left: whole messages before the cut survive, nothing else does."""

from __future__ import annotations

import shutil
import struct
import time
from pathlib import Path

import pytest
from tests.unit.store.kit import (
    HOST,
    SEGMENT_SIZE,
    START_MS,
    HandClock,
    bodies,
    open_small,
    send,
    settle,
    small_config,
)

from cometmq.errors import StoreError
from cometmq.store.checkpoint import SECOND_AT
from cometmq.store.engine import Store
from cometmq.store.index_holes import INDEX_SEGMENTS_MAX
from cometmq.store.inspection.check import Check
from cometmq.store.inspection.folder import Folder


def segment(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def killed_store(
    root: Path, sizes: list[int], *, keyed: bool = True, vouched: int | None = None
) -> list[tuple[int, int]]:
    """A store killed after these messages, whose checkpoint knows the first `vouched`; returns their places."""
    store = open_small(root)
    places, checkpoint = [], root / "checkpoint"
    for number, size in enumerate(sizes):
        fields = {"keys": f"k{number}"} if keyed else {}
        places.append(send(store, bytes([number + 1]) * size, **fields))
        if number + 1 == vouched:
            settle(store)
            store.maintain(thorough=True)
            known = checkpoint.read_bytes()
    settle(store)
    store.maintain(thorough=True)
    store.abandon()
    if vouched is not None:  # as a power cut leaves it
        checkpoint.write_bytes(known)
    return [(place.physical_offset, place.size) for place in places]


@pytest.mark.parametrize("filler", [b"\0", b"\xff", None], ids=["zeros", "ones", "old bytes"])
def test_tail_torn_at_every_byte_of_the_last_messages(tmp_path: Path, filler: bytes | None) -> None:
    """Exactly the whole messages before the cut come back. Garbage in topic or properties the format cannot tell."""
    origin, root = tmp_path / "origin", tmp_path / "copy"
    sizes = [40, 3, 0, 17]
    places = killed_store(origin, sizes, keyed=filler == b"\0", vouched=1)
    whole = segment(origin).read_bytes()
    records = [whole[at : at + size] for at, size in places]
    for cut in range(places[1][0], sum(places[-1])):
        shutil.copytree(origin, root)
        # What a torn write may leave: the new bytes up to the cut, anything or an older record behind it.
        rest = (filler or records[0]) * SEGMENT_SIZE
        patch(segment(root), cut, rest[: SEGMENT_SIZE - cut])
        left = segment(root).read_bytes()
        survivors = 0
        while survivors < 4 and left[places[survivors][0] : sum(places[survivors])] == records[survivors]:
            survivors += 1
        store = open_small(root)
        assert [len(body) for body in bodies(store)] == sizes[:survivors]
        assert store.written_offset == [*(at for at, _size in places), sum(places[-1])][survivors]
        assert not any(segment(root).read_bytes()[store.written_offset :])
        assert send(store, b"next").queue_offset == survivors
        if filler == b"\0":
            found = [bool(store.query("T", f"k{number}", 8, 0, 1 << 60)) for number in range(4)]
            assert found == [number < survivors for number in range(4)]
        store.abandon()
        shutil.rmtree(root)


def test_stale_messages_behind_a_cut_do_not_come_back(tmp_path: Path) -> None:
    places = killed_store(tmp_path, [50, 50, 50, 50], vouched=1)
    patch(segment(tmp_path), places[1][0] + 90, b"\xff")  # the second is damaged, the others are sound
    store = open_small(tmp_path)
    assert len(bodies(store)) == 1
    send(store, bytes([2]) * 50)  # just as long as the damaged one
    settle(store)
    store.abandon()
    store = open_small(tmp_path)
    assert len(bodies(store)) == 2
    store.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", [["consumequeue"], ["index"], ["checkpoint"], ["consumequeue", "index", "checkpoint"]])
def test_the_log_alone_is_enough(tmp_path: Path, clean: bool, lost: list[str]) -> None:
    store = open_small(tmp_path)
    for number in range(45):
        send(store, b"%d" % number * 40, queue_id=number % 2, keys=f"k{number}")
    settle(store)
    store.maintain(thorough=True)
    store.close() if clean else store.abandon()
    queue_files = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.glob("consumequeue/*/*/*")}
    assert len(queue_files) == 6
    for name in lost:
        shutil.rmtree(tmp_path / name) if (tmp_path / name).is_dir() else (tmp_path / name).unlink()
    store = open_small(tmp_path)
    assert len(bodies(store, queue_id=0) + bodies(store, queue_id=1)) == 45
    assert all(len(store.query("T", f"k{number}", 8, 0, 1 << 60)) == 1 for number in range(45))
    store.close()
    assert {
        path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.glob("consumequeue/*/*/*")
    } == queue_files


@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_index_is_made_again_for_the_newest_ten_files(tmp_path: Path, clean: bool) -> None:
    store = open_small(tmp_path)
    places = [send(store, b"%d" % number * 100, keys=f"k{number}") for number in range(200)]
    settle(store)
    store.maintain(thorough=True)
    store.close() if clean else store.abandon()
    files = sorted(int(path.name) for path in (tmp_path / "commitlog").iterdir())
    assert len(files) > INDEX_SEGMENTS_MAX == 10
    shutil.rmtree(tmp_path / "index")
    store = open_small(tmp_path)
    found = [bool(store.query("T", f"k{number}", 8, 0, 1 << 60)) for number in range(200)]
    assert found == [place.physical_offset >= files[-INDEX_SEGMENTS_MAX] for place in places]
    assert any(found) and not all(found)
    store.close()


def test_the_checkpoint_vouches_for_an_index_as_java_leaves_it(tmp_path: Path) -> None:
    """Java's says how far the last full file is; files behind that it deletes, should the next process be killed."""
    store = open_small(tmp_path)
    send(store, b"x", keys="k")
    settle(store)
    store.close()
    checkpoint = tmp_path / "checkpoint"
    patch(checkpoint, 16, bytes(8))
    patch(checkpoint, SECOND_AT, bytes(52))
    store = open_small(tmp_path)
    store.abandon()
    (index,) = (tmp_path / "index").iterdir()
    assert checkpoint.read_bytes()[16:24] == index.read_bytes()[8:16] == START_MS.to_bytes(8)


def test_a_log_that_was_never_synced_takes_the_queues_along(tmp_path: Path) -> None:
    """A power cut may leave units of messages and not the first file of the log."""
    known = tmp_path / "known"
    store = open_small(tmp_path)
    known.write_bytes((tmp_path / "checkpoint").read_bytes())
    for _ in range(15):
        send(store, b"x")
    settle(store)
    store.maintain(thorough=True)
    store.abandon()
    known.rename(tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "commitlog")
    store = open_small(tmp_path)
    assert store.max_offset("T", 0) == 0
    assert send(store, b"x")[:3] == (0, 93, 0)
    store.close()


def test_queues_ahead_of_the_log_are_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a power cut leaves them: units of messages that were never known to be synced."""
    places = killed_store(tmp_path, [100] * 60, vouched=3)
    for path in sorted((tmp_path / "commitlog").iterdir())[1:]:
        path.unlink()
    count = sum(1 for at, _size in places if at < SEGMENT_SIZE)
    store = open_small(tmp_path)
    assert f"{60 - count} units of queues" in caplog.text
    assert (store.min_offset("T", 0), store.max_offset("T", 0), len(bodies(store))) == (0, count, count)
    assert send(store, b"x").queue_offset == count
    store.close()
    store = open_small(tmp_path)
    assert len(bodies(store)) == count + 1
    store.close()


@pytest.mark.parametrize("at", [0, 40], ids=["messages of another size", "the midst of messages"])
def test_units_that_java_left_of_torn_messages_are_cut(tmp_path: Path, at: int) -> None:
    """It begins to write before them again; what it has stored since, in other queues, stands where they point."""
    store = open_small(tmp_path)
    for number in range(3):
        send(store, b"%d" % number)
    others = [send(store, b"x" * 100, queue_id=1).physical_offset for _ in range(3)]
    settle(store)
    store.maintain(thorough=True)
    store.abandon()
    stale = b"".join(struct.pack(">qiq", place + at, 110, 0) for place in others)
    patch(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 3 * 20, stale)
    for _ in range(2):
        store = open_small(tmp_path)
        assert (store.max_offset("T", 0), len(bodies(store))) == (3, 3)
        store.abandon()
    store = open_small(tmp_path)
    assert send(store, b"next").queue_offset == 3
    settle(store)
    assert bodies(store) == [b"0", b"1", b"2", b"next"]
    store.close()


def test_a_queue_whose_first_unit_is_spoilt_was_not_deleted(tmp_path: Path) -> None:
    """Though the checkpoint vouches for all queues: it is made again from the log."""
    killed_store(tmp_path, [100] * 12)
    patch(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 0, b"\x80")
    store = open_small(tmp_path)
    assert len(bodies(store)) == 12
    store.close()


def test_empty_next_segment_is_no_damage(tmp_path: Path) -> None:
    places = killed_store(tmp_path, [100] * 3)
    segment(tmp_path, SEGMENT_SIZE).write_bytes(bytes(SEGMENT_SIZE))  # preallocated, not yet used, as Java does
    segment(tmp_path, 2 * SEGMENT_SIZE).write_bytes(b"")
    store = open_small(tmp_path)
    assert store.written_offset == sum(places[-1])
    assert len(bodies(store)) == 3
    store.close()


def test_files_whose_sizes_a_power_cut_took_are_no_damage(tmp_path: Path) -> None:
    """The names of two files reached the disk, their sizes did not; one in the middle is damage as before."""
    places = killed_store(tmp_path, [100] * 3)
    segment(tmp_path, SEGMENT_SIZE).write_bytes(b"")
    segment(tmp_path, 2 * SEGMENT_SIZE).write_bytes(bytes(SEGMENT_SIZE))
    with pytest.raises(StoreError, match="has 0 bytes"):
        open_small(tmp_path)
    segment(tmp_path, 2 * SEGMENT_SIZE).write_bytes(b"")
    store = open_small(tmp_path)
    assert store.written_offset == sum(places[-1])
    assert len(bodies(store)) == 3
    assert not segment(tmp_path, SEGMENT_SIZE).exists()
    store.close()


def test_a_log_that_ends_with_a_blank_goes_on(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    send(store, bytes(3000))
    send(store, bytes(3000))
    settle(store)
    store.abandon()
    segment(tmp_path, SEGMENT_SIZE).unlink()
    store = open_small(tmp_path)
    assert len(bodies(store)) == 1
    assert send(store, bytes(3000)).physical_offset == SEGMENT_SIZE
    settle(store)
    assert len(bodies(store)) == 2
    store.close()


def test_queue_that_starts_late_has_blank_units(tmp_path: Path) -> None:
    """Its older files went with the log; rebuilt, the first file is filled up to the first message, as Java does."""
    store = open_small(tmp_path)
    for number in range(64):
        send(store, b"%02d" % number)
    settle(store)
    store.close()
    first = segment(tmp_path)
    kept = segment(tmp_path, SEGMENT_SIZE).read_bytes()
    first.unlink()
    shutil.rmtree(tmp_path / "consumequeue")
    store = open_small(tmp_path)
    low = store.min_offset("T", 0)
    assert low == int.from_bytes(kept[20:28], "big") and low % 10
    assert bodies(store) == [b"%02d" % number for number in range(low, 64)]
    store.close()
    data = (tmp_path / "consumequeue" / "T" / "0" / f"{low // 10 * 200:020d}").read_bytes()
    assert data[: low % 10 * 20] == bytes.fromhex("0000000000000000 7fffffff 0000000000000000") * (low % 10)
    store = open_small(tmp_path)
    assert bodies(store)[0] == b"%02d" % low
    store.close()


def test_foreign_files_are_named(tmp_path: Path) -> None:
    open_small(tmp_path).close()
    (tmp_path / "commitlog" / "notes.txt").write_text("x")
    with pytest.raises(StoreError, match=r"notes\.txt"):
        open_small(tmp_path)
    (tmp_path / "commitlog" / "notes.txt").unlink()
    store = open_small(tmp_path)
    assert store.recovered_cleanly
    store.close()


def test_progress_is_told(tmp_path: Path) -> None:
    killed_store(tmp_path, [1000] * 20)
    shutil.rmtree(tmp_path / "consumequeue")
    told: list[tuple[int, int]] = []
    store = Store.open(small_config(tmp_path), store_host=HOST, progress=lambda done, total: told.append((done, total)))
    assert len(told) > 3 and all(0 < done <= total for done, total in told)
    store.close()


@pytest.mark.parametrize("count", [1, 5, 9, 30])
def test_progress_ends_where_the_messages_end(tmp_path: Path, count: int) -> None:
    """And not with the space that was made for others."""
    size = 64 * 1024
    store = open_small(tmp_path, mapped_file_size_commit_log=size)
    for number in range(count):
        send(store, b"%d" % number * 3000)
    settle(store)
    end = store.written_offset
    store.abandon()
    told: list[tuple[int, int]] = []
    config = small_config(tmp_path, mapped_file_size_commit_log=size)
    Store.open(config, store_host=HOST, progress=lambda done, total: told.append((done, total))).abandon()
    done, total = told[-1]
    assert done == end <= total < end + 1024
    told.clear()
    folder = Folder(str(tmp_path), {})
    Check(folder, lambda done, total: told.append((done, total))).run()
    folder.close()
    assert told[-1] == (done, total)


@pytest.mark.parametrize("clean", [True, False])
def test_a_missing_segment_does_not_cost_those_behind_it(tmp_path: Path, clean: bool) -> None:
    store = open_small(tmp_path)
    for _ in range(4):
        send(store, bytes(3000))
    settle(store)
    store.close() if clean else store.abandon()
    segment(tmp_path, SEGMENT_SIZE).unlink()
    with pytest.raises(StoreError, match="00000000000000004096 is missing"):
        open_small(tmp_path)
    assert segment(tmp_path, 2 * SEGMENT_SIZE).exists()
    assert segment(tmp_path, 3 * SEGMENT_SIZE).exists()


@pytest.mark.parametrize("lost", [1, 5, 8])
def test_a_last_unit_without_its_tags_is_put_again(tmp_path: Path, lost: int) -> None:
    store = open_small(tmp_path)
    for number in range(3):
        send(store, b"tagged", tags=f"tag{number}", properties_data=f"TAGS\x01tag{number}\x02".encode())
    settle(store)
    store.maintain()
    codes = store.unit_codes("T", 0, 0, 3)
    store.abandon()
    path = tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
    whole = path.read_bytes()
    data = bytearray(whole)
    data[60 - lost : 60] = bytes(lost)  # as the next sector of the disk would miss
    path.write_bytes(data)
    store = open_small(tmp_path)
    assert store.unit_codes("T", 0, 0, 3) == codes
    store.close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("victim", ["0/*", "0/*400", "*/*"], ids=["one queue", "its last file", "all"])
def test_queue_files_full_of_zeros_are_made_again(tmp_path: Path, clean: bool, victim: str) -> None:
    store = open_small(tmp_path)
    for number in range(45):
        send(store, b"%d" % number * 40, queue_id=number % 2, keys=f"k{number}")
    settle(store)
    store.maintain(thorough=True)
    store.close() if clean else store.abandon()
    files = {path: path.read_bytes() for path in sorted(tmp_path.glob("consumequeue/*/*/*"))}
    zeroed = [path for path in files if path.match(f"T/{victim}")]
    assert 0 < len(zeroed) <= len(files)
    for path in zeroed:
        path.write_bytes(bytes(len(files[path])))
    open_small(tmp_path).abandon()  # a kill right after the repair must not bring them back
    store = open_small(tmp_path)
    assert [len(bodies(store, queue_id=queue_id)) for queue_id in (0, 1)] == [23, 22]
    assert all(len(store.query("T", f"k{number}", 8, 0, 1 << 60)) == 1 for number in range(45))
    store.close()
    assert {path: path.read_bytes() for path in sorted(tmp_path.glob("consumequeue/*/*/*"))} == files


@pytest.mark.parametrize("clean", [True, False])
def test_a_deleted_topic_stays_deleted_beside_zeroed_queues(tmp_path: Path, clean: bool) -> None:
    store = open_small(tmp_path)
    for number in range(10):
        send(store, b"%d" % number, queue_id=0)
        send(store, b"%d" % number, topic="gone")
    settle(store)
    store.delete_topic("gone")
    store.maintain(thorough=True)
    store.close() if clean else store.abandon()
    (path,) = tmp_path.glob("consumequeue/T/0/*")
    path.write_bytes(bytes(path.stat().st_size))
    store = open_small(tmp_path)
    assert len(bodies(store)) == 10
    assert store.max_offset("gone", 0) == 0
    store.close()


def test_an_empty_file_of_a_new_queue_costs_no_replay_of_the_whole_log(tmp_path: Path) -> None:
    """As a power cut leaves it: the queue's first message is behind the checkpoint."""
    store = open_small(tmp_path)
    for number in range(90):
        send(store, b"%d" % number * 40)
    settle(store)
    store.maintain(thorough=True)
    send(store, b"first", queue_id=7)
    settle(store)
    store.maintain()
    store.abandon()
    (path,) = tmp_path.glob("consumequeue/T/7/*")
    path.write_bytes(bytes(path.stat().st_size))
    totals: list[int] = []
    store = Store.open(
        small_config(tmp_path), store_host=HOST, clock=HandClock(), progress=lambda done, total: totals.append(total)
    )
    segments = len(list(tmp_path.glob("commitlog/*")))
    assert segments > 2
    assert max(totals) < segments * store.config.mapped_file_size_commit_log
    assert bodies(store, queue_id=7) == [b"first"]
    store.close()


@pytest.mark.parametrize("length", [1, 4096 - 1])
def test_a_file_that_was_being_made_is_removed(tmp_path: Path, length: int) -> None:
    """Where the file system has no call that makes room at once, a kill leaves a file that is too short."""
    store = open_small(tmp_path)
    send(store, b"x")
    settle(store)
    store.abandon()
    unfinished = tmp_path / "commitlog" / f"{SEGMENT_SIZE:020d}"
    unfinished.write_bytes(bytes(length))
    store = open_small(tmp_path)
    assert bodies(store) == [b"x"] and not unfinished.exists()
    store.close()
    unfinished.write_bytes(b"\x00" * (length - 1) + b"x")
    with pytest.raises(StoreError, match="restore the file"):
        open_small(tmp_path)


@pytest.mark.parametrize("clean", [True, False])
def test_store_times_go_on_where_the_clock_was_set_back_by_a_month(tmp_path: Path, clean: bool) -> None:
    """So far ahead of the clock, a store time would else count as damaged."""
    clock = HandClock()
    clock.ms = int(time.time() * 1000) + 40 * 24 * 3_600_000
    store = open_small(tmp_path, clock=clock)
    latest_ms = send(store, b"before").store_time_ms
    settle(store)
    store.maintain(thorough=True)
    store.close() if clean else store.abandon()
    clock.ms = int(time.time() * 1000)
    store = open_small(tmp_path, clock=clock)
    assert send(store, b"after").store_time_ms == latest_ms
    store.close()
