"""One process per store; `abort` says how the last one ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.errors import StoreError, StoreLocked
from cometmq.store.fs import OsFs
from cometmq.store.lock import StoreLock

HOLD = """
import sys
from cometmq.store.fs import OsFs
from cometmq.store.lock import StoreLock
lock = StoreLock(OsFs(), sys.argv[1])
try:
    lock.acquire()
except Exception as error:
    print(type(error).__name__, error, flush=True)
else:
    print("held", flush=True)
    sys.stdin.read()
"""


def hold_elsewhere(root: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline()


def let_go(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=30)


def test_another_process_is_refused_by_name(tmp_path: Path) -> None:
    lock = StoreLock(OsFs(), str(tmp_path))
    lock.acquire()
    process, said = hold_elsewhere(tmp_path)
    let_go(process)
    assert said.startswith("StoreLocked") and str(tmp_path / "lock") in said
    lock.release()
    process, said = hold_elsewhere(tmp_path)
    assert said == "held\n"
    with pytest.raises(StoreLocked, match="another process"):
        lock.acquire()
    assert not lock.held
    let_go(process)
    lock.acquire()
    lock.release()


def test_a_second_store_in_this_process_is_refused_and_takes_nothing_away(tmp_path: Path) -> None:
    lock = StoreLock(OsFs(), str(tmp_path))
    lock.acquire()
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    for root in (tmp_path, tmp_path / "link", tmp_path / "." / ""):
        with pytest.raises(StoreLocked, match="this process"):
            StoreLock(OsFs(), str(root)).acquire()
    process, said = hold_elsewhere(tmp_path)  # still locked for the world
    let_go(process)
    assert said.startswith("StoreLocked")
    lock.release()
    lock.release()
    StoreLock(OsFs(), str(tmp_path)).release()


def test_the_lock_file_is_javas(tmp_path: Path) -> None:
    lock = StoreLock(OsFs(), str(tmp_path / "deep" / "store"))
    lock.acquire()
    lock.release()
    assert (tmp_path / "deep" / "store" / "lock").read_bytes() == b"lock"


def test_a_file_that_cannot_be_locked_is_a_store_error(tmp_path: Path) -> None:
    class ReadOnly(OsFs):
        def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
            return super().open(path, create=create, read_only=False) if create else super().open(path)

        def pwrite(self, fd: int, data: bytes | bytearray | memoryview, offset: int) -> int:
            raise OSError(30, "Read-only file system")

    with pytest.raises(StoreError, match="Read-only file system"):
        StoreLock(ReadOnly(), str(tmp_path)).acquire()
    lock = StoreLock(OsFs(), str(tmp_path))
    lock.acquire()
    lock.release()


def test_abort_marks_a_running_store(tmp_path: Path) -> None:
    lock = StoreLock(OsFs(), str(tmp_path))
    assert not lock.abort_exists
    lock.remove_abort()
    (tmp_path / "abort").write_bytes(b"a longer process id than any 1234567890")
    lock.create_abort()
    assert lock.abort_exists
    assert (tmp_path / "abort").read_bytes().isdigit()
    lock.remove_abort()
    assert not lock.abort_exists
