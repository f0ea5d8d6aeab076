"""The store's lock and Java's are the same lock: whoever comes second is refused, whichever comes first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.original.programs import java_program

from cometmq.errors import StoreLocked
from cometmq.store.fs import OsFs
from cometmq.store.lock import StoreLock

SOURCE = Path(__file__).with_name("java") / "HoldLock.java"


def lock_in_java(root: Path) -> tuple[subprocess.Popen[str], str]:
    command = [*java_program(SOURCE), str(root / "lock")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_java_is_refused_while_we_run(tmp_path: Path) -> None:
    lock = StoreLock(OsFs(), str(tmp_path))
    lock.acquire()
    try:
        process, said = lock_in_java(tmp_path)
        process.communicate(timeout=30)
        assert said == "refused"
    finally:
        lock.release()


def test_we_are_refused_while_java_runs(tmp_path: Path) -> None:
    process, said = lock_in_java(tmp_path)
    try:
        assert said == "held"
        with pytest.raises(StoreLocked, match="another process"):
            StoreLock(OsFs(), str(tmp_path)).acquire()
    finally:
        process.communicate(timeout=30)
    lock = StoreLock(OsFs(), str(tmp_path))
    lock.acquire()
    lock.release()
