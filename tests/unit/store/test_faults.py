"""The store when the disk fails: no false promise, nothing stored is touched, and what can heal heals."""

from __future__ import annotations

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.store.kit import HandClock, bodies, open_small, send, settle

from cometmq.errors import StoreNotWritable
from cometmq.store.fs import Buffer
from cometmq.testing.faulty_fs import FaultyFs


def test_a_failed_sync_fences_for_good(tmp_path: Path) -> None:
    fs = FaultyFs()
    store = open_small(tmp_path, fs)
    send(store, b"safe")
    settle(store)
    flushed = store.flushed_offset
    send(store, b"in doubt")
    store.write()
    fs.fail("sync", errno.EIO)
    with pytest.raises(StoreNotWritable, match="sync"):
        store.flush_log()
    assert not store.writable and "sync" in (store.fault or "")
    for refused in (store.flush_log, store.write, lambda: send(store, b"later")):
        with pytest.raises(StoreNotWritable):
            refused()
    assert store.flushed_offset == flushed == store.confirm_offset
    assert store.dispatch() == []
    assert bodies(store) == [b"safe"]
    store.close()
    assert (tmp_path / "abort").exists()
    store = open_small(tmp_path)
    assert not store.recovered_cleanly
    assert bodies(store)[0] == b"safe"
    store.close()


@pytest.mark.parametrize("call", ["pwrite", "fsync_dir", "open"])
def test_any_other_write_error_fences(tmp_path: Path, call: str) -> None:
    fs = FaultyFs()
    store = open_small(tmp_path, fs)
    fs.fail(call, errno.EIO)
    with pytest.raises(StoreNotWritable):
        send(store, b"x")
        settle(store)
    assert not store.writable
    store.close()
    assert (tmp_path / "abort").exists()


def test_short_writes_are_finished(tmp_path: Path) -> None:
    fs = FaultyFs()
    store = open_small(tmp_path, fs)
    send(store, b"x" * 500)
    fs.cut_writes(1, 7, 88)
    settle(store)
    assert bodies(store) == [b"x" * 500]
    store.close()


def test_the_count_of_a_short_write_is_not_believed(tmp_path: Path) -> None:
    class Lying(FaultyFs):
        lies = 0

        def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
            if self.lies and len(data) > 500:
                self.lies = 0
                return 7  # and nothing is written
            return super().pwrite(fd, data, offset)

    fs = Lying()
    store = open_small(tmp_path, fs)
    send(store, b"x" * 500)
    fs.lies = 1
    settle(store)
    assert not fs.lies
    assert bodies(store) == [b"x" * 500]
    store.close()


def test_large_messages_go_in_pieces(tmp_path: Path) -> None:
    fs = FaultyFs()
    store = open_small(tmp_path, fs, mapped_file_size_commit_log=16 << 20)
    sent = [bytes([number]) * 700_000 for number in range(4)] + [b"small"] * 300
    for body in sent:
        send(store, body)
    fs.cut_writes(1_000_003)
    settle(store)
    assert fs.calls["pwritev"] == 2
    assert bodies(store) == sent
    store.close()


def test_a_full_disk_refuses_and_heals(tmp_path: Path) -> None:
    fs, clock = FaultyFs(), HandClock()
    store = open_small(tmp_path, fs, clock)
    send(store, b"a" * 3000)
    settle(store)
    fs.fail("preallocate", errno.ENOSPC)
    for _ in range(2):  # the second is refused without asking the disk again
        with pytest.raises(StoreNotWritable, match="disk is full"):
            send(store, b"b" * 3000)
    assert len(list((tmp_path / "commitlog").iterdir())) == 1
    assert send(store, b"fits").queue_offset == 1
    assert store.writable
    settle(store)
    clock.ms += 1001
    assert send(store, b"b" * 3000).queue_offset == 2
    settle(store)
    assert [len(body) for body in bodies(store)] == [3000, 4, 3000]
    store.close()
    assert not (tmp_path / "abort").exists()


def test_a_full_disk_keeps_queue_tails_in_memory(tmp_path: Path) -> None:
    fs = FaultyFs()
    store = open_small(tmp_path, fs)
    for number in range(25):
        send(store, b"%d" % number)
    settle(store)
    fs.fail("pwrite", errno.ENOSPC, after=1)
    assert not store.maintain()
    assert store.writable
    assert len(bodies(store)) == 25
    assert store.maintain()
    assert len(bodies(store)) == 25
    store.close()
    store = open_small(tmp_path)
    assert store.recovered_cleanly and len(bodies(store)) == 25
    store.close()


def test_queues_that_could_not_be_written_keep_abort(tmp_path: Path) -> None:
    fs = FaultyFs()
    store = open_small(tmp_path, fs)
    send(store, b"x")
    settle(store)
    fs.fail("truncate", errno.ENOSPC)
    store.close()
    assert (tmp_path / "abort").exists()
    store = open_small(tmp_path)
    assert bodies(store) == [b"x"]
    store.close()


def test_nearly_full_disk_takes_no_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = FaultyFs()
    store = open_small(tmp_path, fs)
    send(store, b"x")
    settle(store)
    monkeypatch.setattr(fs, "used_ratio", lambda path: 0.95)
    store.clean_expired()
    with pytest.raises(StoreNotWritable, match="diskSpaceWarningLevelRatio"):
        send(store, b"y")
    assert bodies(store) == [b"x"]
    assert store.flush_log() == store.written_offset  # what was taken before goes to the disk all the same
    monkeypatch.setattr(fs, "used_ratio", lambda path: 0.1)
    store.clean_expired()
    send(store, b"y")
    store.close()


@pytest.mark.parametrize("call", ["unlink", "pread"])
def test_retention_that_failed_leaves_no_hole(tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fs, folder = FaultyFs(), tmp_path / "store"
    store = open_small(folder, fs)
    for number in range(200):
        send(store, bytes([number]) * 100)
    settle(store)
    store.maintain()
    monkeypatch.setattr(fs, "used_ratio", lambda path: 0.95)
    fs.fail(call, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        store.clean_expired()
    assert (folder / "commitlog" / f"{0:020d}").exists()
    left = open_small(shutil.copytree(folder, tmp_path / "left"))
    assert len(bodies(left)) == 200
    left.close()
    assert store.clean_expired()
    names = sorted(int(path.name) for path in (folder / "commitlog").iterdir())
    assert names == list(range(names[0], names[-1] + 1, 4096)) and names[0] == store.min_physical_offset > 0
    low = store.min_offset("T", 0)
    assert bodies(store) == [bytes([number]) * 100 for number in range(low, 200)]
    store.close()


def test_retention_moves_the_lower_end(tmp_path: Path) -> None:
    clock = HandClock()
    store = open_small(tmp_path, clock=clock)
    for number in range(200):
        send(store, bytes([number]) * 100, keys=f"k{number}")
    settle(store)
    store.maintain()
    assert store.clean_expired() == []
    clock.ms = 4_000_000_000_000
    store.delete_expired_by_hand()
    held = store.slices(store.read("T", 0, 0, 1).ranges)
    gone = store.clean_expired()
    assert gone and not any(Path(path).exists() for path in gone)
    assert store.min_physical_offset == len(gone) * 4096
    low = store.min_offset("T", 0)
    assert 0 < low < 200
    assert bodies(store) == [bytes([number]) * 100 for number in range(low, 200)]
    assert bytes(held[0][88:188]) == bytes(100)  # who reads a deleted segment can finish
    assert store.query("T", "k0", 10, 0, 1 << 60) == []
    first = min(int(path.name) for path in (tmp_path / "consumequeue" / "T" / "0").iterdir())
    assert low - 10 < first // 20 <= low
    queues = list(store.queues())
    store.abandon()
    store = open_small(tmp_path)
    assert list(store.queues()) == queues
    store.close()


def test_maintenance_finished_before_it_ran_changes_nothing(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    send(store, b"x", keys="k")
    settle(store)
    job = store.prepare_maintenance(thorough=True)
    assert job is not None and store.prepare_maintenance() is None
    store.finish_maintenance(job)
    job.run()
    assert not list(tmp_path.glob("consumequeue/*/*/*"))
    store.close()
    store = open_small(tmp_path)
    assert store.recovered_cleanly and bodies(store) == [b"x"]
    assert store.query("T", "k", 8, 0, 1 << 60)
    store.close()


def test_maintenance_beside_append(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    with ThreadPoolExecutor(1) as worker:
        for number in range(600):
            send(store, b"%d" % number, queue_id=number % 3, keys=f"k{number}")
            settle(store)
            if number % 20 == 0:
                job = store.prepare_maintenance(thorough=number % 40 == 0)
                assert job is not None
                running = worker.submit(job.run)
            if number % 20 == 19:
                running.result()
                store.finish_maintenance(job)
    for queue_id in range(3):
        assert bodies(store, queue_id=queue_id) == [b"%d" % number for number in range(queue_id, 600, 3)]
    store.abandon()
    store = open_small(tmp_path)
    assert sum(high for _topic, _queue_id, _low, high in store.queues()) == 600
    assert all(len(store.query("T", f"k{number}", 8, 0, 1 << 60)) == 1 for number in range(600))
    store.close()
