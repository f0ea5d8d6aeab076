"""The index as a whole: finding, rolling, flushing in another thread, deleting, and disks that say no."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.store import index_file
from cometmq.store.config import StoreConfig
from cometmq.store.fs import Buffer, OsFs
from cometmq.store.index import IndexService, file_name, index_keys, positive_hash
from cometmq.store.index_file import HEADER

EVER = (0, 1 << 62)
T0 = 1_700_000_000_000


class Clock:
    time_ms = T0

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


class FaultyFs(OsFs):
    """Writes fail with `error` while it is set."""

    error = 0
    opened = 0

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        self.opened += 1
        if self.error and create:
            raise OSError(self.error, os.strerror(self.error))
        return super().open(path, create=create, read_only=read_only)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        return super().pwrite(fd, data, offset)

    def close(self, fd: int) -> None:
        self.opened -= 1
        super().close(fd)


opened: list[IndexService] = []


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


def make(
    folder: Path, entries: int = 8, slots: int = 4, fs: OsFs | None = None, clean: bool = True, index_ms: int = 0
) -> IndexService:
    config = StoreConfig(max_hash_slot_num=slots, max_index_num=entries)
    index = IndexService(fs or OsFs(), str(folder), config, Clock())
    opened.append(index)
    index.load(clean, index_ms)
    return index


def fill(index: IndexService, first: int, last: int) -> None:
    for n in range(first, last):
        index.put("T", [f"k{n}", "all"], n * 100, T0 + n * 1000)


def test_what_is_indexed_and_under_what() -> None:
    assert index_keys("U", "a b", "t") == ["U", "a", "b", "T#t"]
    assert index_keys(None, "  a  ", None) == ["a"]
    assert index_keys("", "", "") == []


@pytest.mark.parametrize(
    ("text", "stored"), [("", 0), ("Aa", 2112), ("BB", 2112), ("polygenelubricants", 0), ("k1", 3366)]
)
def test_the_hash_of_a_key(text: str, stored: int) -> None:
    assert positive_hash(text) == stored  # "polygenelubricants" is the classic −2³¹


@pytest.mark.parametrize("entries", [8, 64], ids=["files that are full", "one that is not"])
@pytest.mark.parametrize("which", [0, -1])
def test_a_header_with_a_flipped_bit_is_made_again(tmp_path: Path, entries: int, which: int) -> None:
    made = tmp_path / "made"
    index = make(made, entries)
    fill(index, 0, 17)
    index.flush()
    index.close()
    times = {n * 100: T0 + n * 1000 for n in range(17)}
    for bit in range((entries // 8 + which) % 3, 40 * 8, 3):
        folder = tmp_path / "flipped"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
        path = sorted(folder.iterdir())[which]
        before = path.read_bytes()
        data = bytearray(before)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        config = StoreConfig(max_hash_slot_num=4, max_index_num=entries)
        again = IndexService(OsFs(), str(folder), config, Clock())
        again.load(True, T0 + 16_000, times.get)
        found = [again.query("T", f"k{n}", 8, T0 + (n - 2) * 1000, T0 + (n + 2) * 1000) for n in range(17)]
        assert found == [[n * 100] for n in range(17)], bit
        fill(again, 17, 20)
        assert again.query("T", "all", 64, *EVER) == [n * 100 for n in reversed(range(20))], bit
        again.close()
        if not 32 <= bit // 8 < 36:  # nobody asks how many slots are used
            assert path.read_bytes()[:40] == before[:40], bit


def test_files_roll_and_stay_in_order_when_the_clock_does_not_move(tmp_path: Path) -> None:
    index = make(tmp_path)
    fill(index, 0, 20)
    index.flush()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[0] == file_name(T0) and len(names) == 6
    assert all(len(name) == 17 for name in names)
    assert index.query("T", "all", 64, *EVER) == [n * 100 for n in reversed(range(20))]
    assert [index.query("T", f"k{n}", 8, *EVER) for n in range(20)] == [[n * 100] for n in range(20)]
    assert index.last_update == (T0 + 19_000, 1900)


def test_a_new_file_says_at_once_where_the_one_before_ends(tmp_path: Path) -> None:
    """After a kill Java goes on in it, and would take zeros for the beginning of the log."""
    index = make(tmp_path)
    fill(index, 0, 8)
    index.settle()
    first, second, third = sorted(tmp_path.iterdir())
    assert not any(first.read_bytes())  # nothing is flushed
    for file, last in ((second, 3), (third, 6)):  # 7 entries a file
        end = (T0 + last * 1000, last * 100)
        assert HEADER.unpack(file.read_bytes()[: HEADER.size]) == (end[0], end[0], end[1], end[1], 0, 1)


class DyingFs(OsFs):
    """The process is killed as it waits for the first sync."""

    def sync(self, fd: int) -> None:
        raise OSError(errno.EIO, "killed")


def test_java_finds_everything_where_a_kill_cut_a_flush(tmp_path: Path) -> None:
    """It takes a slot that names more entries than the header counts for empty, and removes files of after the
    checkpoint."""
    index = make(tmp_path, entries=64)
    fill(index, 0, 5)
    index.flush()
    index.close()
    dying = make(tmp_path, entries=64, fs=DyingFs(), clean=False, index_ms=T0 + 4_000)
    fill(dying, 5, 9)
    with pytest.raises(OSError):
        dying.flush()
    dying.close()
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    _, end_ms, _, end_offset, _, count = HEADER.unpack(data[: HEADER.size])
    slots = struct.unpack(">4i", data[HEADER.size : HEADER.size + 16])
    assert (end_ms, end_offset, count, max(slots)) == (T0 + 4_000, 800, 19, 18)
    again = make(tmp_path, entries=64, clean=False, index_ms=T0 + 4_000)
    assert again.query("T", "all", 64, *EVER) == [n * 100 for n in reversed(range(9))]


def test_keys_belong_to_their_topic_and_type(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.put("A", index_keys(None, "x", "x"), 1, T0)
    index.put("B", ["x"], 2, T0)
    assert index.query("A", "x", 8, *EVER) == [1]
    assert index.query("A", "x", 8, *EVER, "T") == [1]
    assert index.query("B", "x", 8, *EVER, "K") == [2]
    assert index.query("B", "x", 8, *EVER, "T") == index.query("C", "x", 8, *EVER) == []


def test_max_count_and_span_of_time(tmp_path: Path) -> None:
    index = make(tmp_path, entries=400)
    fill(index, 0, 150)
    assert index.query("T", "all", 3, *EVER) == [14900, 14800, 14700]
    assert len(index.query("T", "all", 1000, *EVER)) == 64  # maxMsgsNumBatch
    assert index.query("T", "all", 64, T0 + 3000, T0 + 5000) == [500, 400, 300]
    assert index.query("T", "all", 0, *EVER) == index.query("T", "all", -1, *EVER) == []
    assert index.query("T", "all", 64, T0 + 5000, T0 + 3000) == []


def test_a_flush_in_another_thread_hides_nothing_and_loses_nothing(tmp_path: Path) -> None:
    index = make(tmp_path)
    fill(index, 0, 10)
    flush = index.prepare()
    assert flush is not None
    assert index.prepare() is None  # one at a time
    fill(index, 10, 20)
    assert len(index.query("T", "all", 64, *EVER)) == 20
    flush.run()
    assert len(index.query("T", "all", 64, *EVER)) == 20
    index.finish(flush)
    assert index.flushed_store_time_ms == T0 + 9000
    assert len(index.query("T", "all", 64, *EVER)) == 20
    index.flush()
    assert index.flushed_store_time_ms == T0 + 19_000
    index.close()
    assert len(make(tmp_path).query("T", "all", 64, *EVER)) == 20


def test_messages_without_keys_move_the_time_that_is_complete(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.put("T", [], 0, T0)
    index.flush()
    assert index.flushed_store_time_ms == T0
    assert list(tmp_path.iterdir()) == []


def test_replay_adds_only_what_is_missing(tmp_path: Path) -> None:
    index = make(tmp_path, entries=100)
    fill(index, 0, 5)
    index.put("T", ["first"], 500, T0 + 5000)
    index.flush()
    index.close()
    again = make(tmp_path, entries=100)
    fill(again, 0, 5)
    again.put("T", ["first", "second"], 500, T0 + 5000)
    again.put("T", ["third"], 600, T0 + 6000)
    assert again.query("T", "all", 64, *EVER) == [400, 300, 200, 100, 0]
    for key, offset in (("first", 500), ("second", 500), ("third", 600)):
        assert again.query("T", key, 8, *EVER) == [offset]


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("log_end", [0, 1, 100, 450, 1050, 1900, 1901])
def test_a_log_that_ends_earlier(tmp_path: Path, log_end: int, flushed: bool) -> None:
    index = make(tmp_path)
    fill(index, 0, 20)
    if flushed:
        index.flush()
    index.truncate(log_end)
    left = [n for n in range(20) if n * 100 < log_end]
    for each in (index, make(tmp_path)):
        assert each.query("T", "all", 64, *EVER) == [n * 100 for n in reversed(left)]
    for n in range(len(left), 20):  # the log grows again, with other messages
        index.put("T", [f"new{n}", "all"], n * 100 + 7, T0 + n * 1000)
    assert len(index.query("T", "all", 64, *EVER)) == 20
    assert [bool(index.query("T", f"k{n}", 8, *EVER)) for n in range(20)] == [n in left for n in range(20)]
    assert [bool(index.query("T", f"new{n}", 8, *EVER)) for n in range(20)] == [n not in left for n in range(20)]


def test_deletion_follows_the_log_and_spares_the_last_file(tmp_path: Path) -> None:
    fs = FaultyFs()
    index = make(tmp_path, fs=fs)
    fill(index, 0, 20)
    assert index.delete_before(0) == []
    flush = index.prepare()
    assert flush is not None
    assert len(index.delete_before(600)) == 1  # 7 entries a file: the first ends with message 3, the second with 6
    assert len(index.delete_before(600)) == 0
    flush.run()
    index.finish(flush)
    assert len(index.delete_before(1 << 40)) == 4
    assert fs.opened == len(list(tmp_path.iterdir())) == 1
    assert index.query("T", "k19", 8, *EVER) == [1900]
    index.flush()
    index.close()
    assert fs.opened == 0


def test_what_is_not_an_index_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "20250101000000000").write_bytes(b"")
    (tmp_path / "20250101000000001").write_bytes(b"x" * 100)
    index = make(tmp_path)
    assert len(index.skipped) == 1 and "maxHashSlotNum" in index.skipped[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20250101000000001", "notes.txt"]
    fill(index, 0, 3)
    assert index.query("T", "k2", 8, *EVER) == [200]


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "SPILL_SIZE", 1000)
    fs = FaultyFs()
    index = make(tmp_path, 10_000, 500, fs)
    fill(index, 0, 10)
    index.flush()
    fs.error = errno.ENOSPC
    fill(index, 10, 300)
    with pytest.raises(OSError, match="No space"):
        index.flush()
    assert index.fault is None
    assert index.flushed_store_time_ms == T0 + 9000
    assert len(index.query("T", "k299", 64, *EVER)) == 1
    fs.error = 0
    index.flush()
    assert index.flushed_store_time_ms == T0 + 299_000
    index.close()
    again = make(tmp_path, 10_000, 500)
    assert [again.query("T", f"k{n}", 8, *EVER) for n in range(300)] == [[n * 100] for n in range(300)]


def test_a_disk_without_room_for_the_next_file_is_waited_for(tmp_path: Path) -> None:
    fs = FaultyFs()
    index = make(tmp_path, 8, 500, fs)
    fill(index, 0, 2)
    index.flush()
    fs.error = errno.ENOSPC
    for n in range(2, 30):
        fill(index, n, n + 1)
        with contextlib.suppress(OSError):
            index.flush()
    assert index.fault is None and index.incomplete
    assert index.flushed_store_time_ms < T0 + 4000  # the first file was full with the fourth
    fs.error = 0
    index.flush()
    assert not index.incomplete
    assert index.flushed_store_time_ms == T0 + 29_000
    index.close()
    again = make(tmp_path, 8, 500)
    assert [again.query("T", f"k{n}", 8, *EVER) for n in range(30)] == [[n * 100] for n in range(30)]


def test_a_file_that_cannot_be_sized_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = FaultyFs()
    index = make(tmp_path, 8, 500, fs)

    def full(_fs: OsFs, _fd: int, _size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(OsFs, "truncate", full)
        for n in range(3):
            fill(index, n, n + 1)
            index.settle()
        assert not list(tmp_path.iterdir()) and fs.opened == 0
    index.flush()
    assert [index.query("T", f"k{n}", 8, *EVER) for n in range(3)] == [[0], [100], [200]]


@pytest.mark.parametrize("entries", [8, 10_000])
def test_where_memory_ends_indexing_stops_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    monkeypatch.setattr(index_file, "SPILL_SIZE", 1000)
    monkeypatch.setattr(index_file, "TAIL_SIZE_MAX", 5000)
    fs = FaultyFs()
    index = make(tmp_path, entries, 500, fs)
    fill(index, 0, 2)
    index.flush()
    fs.error = errno.ENOSPC
    fill(index, 2, 1000)
    assert index.fault is not None and str(tmp_path) in index.fault
    assert index.query("T", "k1", 8, *EVER) == [100]
    fs.error = 0
    index.flush()
    assert index.flushed_store_time_ms < T0 + 999_000  # the checkpoint does not claim what is missing
    index.close()
    again = make(tmp_path, entries, 500, clean=False, index_ms=index.flushed_store_time_ms)
    fill(again, 0, 1000)
    assert [again.query("T", f"k{n}", 8, *EVER) for n in range(0, 1000, 9)] == [[n * 100] for n in range(0, 1000, 9)]
