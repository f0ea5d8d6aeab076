"""What of the log counts as in memory: what can be read without waiting, page by page; and asking changes nothing."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.kit import QuickFs, open_small, send, settle

from cometmq.store.fs import OsFs
from cometmq.store.residency import CLOSE_SIZE

PAGE_COUNT = 32
LOST = b"not in memory"


@pytest.fixture
def evicted(tmp_path: Path) -> Iterator[tuple[memoryview, int]]:
    """A map of a file that the system has dropped from memory, and a descriptor that reads no more than it is told."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * PAGE_COUNT * mmap.PAGESIZE)
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    view = OsFs().map_read(str(path))
    if OsFs().in_memory(view):
        pytest.skip("this file system keeps its files in memory")
    yield view, fd
    os.close(fd)


def test_a_range_is_in_memory_if_every_page_of_it_is(evicted: tuple[memoryview, int]) -> None:
    (view, fd), in_memory = evicted, OsFs().in_memory
    os.pread(fd, 1, 0)
    os.pread(fd, 1, (PAGE_COUNT - 1) * mmap.PAGESIZE)
    assert in_memory(view[:1])
    assert in_memory(view[-10:])
    assert not in_memory(view)  # there is nothing between the ends
    for page in range(PAGE_COUNT):
        os.pread(fd, 1, page * mmap.PAGESIZE)
    assert in_memory(view)
    assert in_memory(view[mmap.PAGESIZE - 1 : mmap.PAGESIZE + 1])


def test_to_ask_is_not_to_fetch(evicted: tuple[memoryview, int]) -> None:
    (view, fd), in_memory = evicted, OsFs().in_memory
    assert not any(in_memory(view[at : at + 1]) for _ in range(3) for at in range(0, len(view), mmap.PAGESIZE))
    os.pread(fd, 1, 5 * mmap.PAGESIZE)
    there = [page for page in range(PAGE_COUNT) if in_memory(view[page * mmap.PAGESIZE :][:1])]
    assert there == [5]


def test_what_an_earlier_process_wrote_and_is_still_there_is_not_cold(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    for number in range(30):
        send(store, bytes([number]) * 400)
    settle(store)
    store.close()
    store = open_small(tmp_path)
    assert not store.read("T", 0, 0, 10).cold
    assert not store.read("T", 0, 30, 10).cold  # nothing to wait for
    store.close()


class HoleFs(QuickFs):
    """A page cache without the record that says so."""

    def in_memory(self, view: memoryview) -> bool:
        return LOST not in bytes(view)


def test_one_record_on_disk_makes_a_read_cold(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    for number in range(9):
        send(store, LOST if number == 4 else b"%d" % number)
    settle(store)
    store.close()
    store = open_small(tmp_path, fs=HoleFs())
    assert not store.read("T", 0, 0, 4).cold
    assert store.read("T", 0, 0, 9).cold  # though it begins and ends in memory
    units = store.quick.units("T", 0, 0, 9)
    assert units is not None
    assert store.quick.framed(b"head", units.units, 0, 0) is None
    assert not store.read("T", 0, 5, 9).cold
    store.close()


def test_what_stands_between_distant_records_is_not_asked_about(tmp_path: Path) -> None:
    store = open_small(tmp_path, mapped_file_size_commit_log=8 * CLOSE_SIZE)
    for body in (b"first", LOST.ljust(CLOSE_SIZE, b"-"), b"last"):
        send(store, body, queue_id=int(body[:4] == LOST[:4]))
    settle(store)
    store.close()
    store = open_small(tmp_path, fs=HoleFs(), mapped_file_size_commit_log=8 * CLOSE_SIZE)
    assert not store.read("T", 0, 0, 10).cold
    assert store.read("T", 1, 0, 10).cold
    store.close()
