"""Tables on disk: whole or the one before, at every moment."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from cometmq.errors import StoreError
from cometmq.store.fs import Buffer, OsFs
from cometmq.store.tables import TableFile

ONE = {"dataVersion": {"counter": 1}, "offsetTable": {"T@G": {"0": 5}}}
TWO = {"dataVersion": {"counter": 2}, "offsetTable": {"T@G": {"0": 6}}}


class StopFs(OsFs):
    """Fails at the n-th call that changes something."""

    def __init__(self, stop_at: int = -1, error: int = errno.EIO) -> None:
        self.calls = 0
        self.stop_at = stop_at
        self.error = error

    def _step(self) -> None:
        self.calls += 1
        if self.calls == self.stop_at:
            raise OSError(self.error, "stopped")

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        super().truncate(fd, size)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        self._step()
        return super().pwrite(fd, data[: max(len(data) // 2, 1)], offset)  # short writes are the rule here

    def sync(self, fd: int) -> None:
        self._step()
        super().sync(fd)

    def rename(self, old: str, new: str) -> None:
        self._step()
        super().rename(old, new)

    def fsync_dir(self, path: str) -> None:
        self._step()
        super().fsync_dir(path)


def table(path: Path, fs: OsFs | None = None) -> TableFile:
    return TableFile(fs or OsFs(), str(path))


def load(path: Path) -> dict[str, Any] | None:
    return table(path).load()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "consumerOffset.json"


def test_the_newest_and_the_one_before(path: Path) -> None:
    file = table(path)
    assert file.load() is None
    assert file.save(ONE)
    assert load(path) == ONE
    assert file.save(TWO)
    assert not file.save(TWO)
    assert load(path) == TWO
    assert load(path.with_name(path.name + ".bak")) == ONE
    assert sorted(child.name for child in path.parent.iterdir()) == [path.name, path.name + ".bak"]


def test_javas_bare_keys_are_read_and_unknown_content_survives(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{\n\t"offsetTable":{"T@G":{0:5,1:7}},"new in 6.0":[1,{"a":null}]\n}')
    file = table(path)
    value = file.load()
    assert value == {"offsetTable": {"T@G": {"0": 5, "1": 7}}, "new in 6.0": [1, {"a": None}]}
    file.save(value)
    assert load(path) == value


@pytest.mark.parametrize("damage", [b"", b"{", b'{"a":1', b"[]", b"3", b"\0" * 100, b"\xff\xfe", b'{"a":1}}'])
def test_a_broken_newest_falls_back_and_never_covers_the_backup(path: Path, damage: bytes) -> None:
    file = table(path)
    file.save(ONE)
    file.save(TWO)
    path.write_bytes(damage)
    again = table(path)
    assert again.load() == ONE
    assert damage == b"" or (again.warning is not None and str(path) in again.warning)
    again.save(TWO)
    assert load(path) == TWO
    path.unlink()
    assert load(path) == ONE


@pytest.mark.parametrize("newest", [None, b"", b"{", b"[1]"])
@pytest.mark.parametrize("backup", [None, b"", b"{", b"[1]"])
def test_nothing_to_read_is_either_empty_or_an_error_that_names_the_file(
    path: Path, newest: bytes | None, backup: bytes | None
) -> None:
    path.parent.mkdir()
    for place, data in ((path, newest), (path.with_name(path.name + ".bak"), backup)):
        if data is not None:
            place.write_bytes(data)
    if newest or backup:
        with pytest.raises(StoreError, match=r"consumerOffset\.json"):
            load(path)
    else:
        assert load(path) is None


def test_stopped_at_every_step_one_whole_copy_is_left(path: Path) -> None:
    stop_at = 0
    while True:
        stop_at += 1
        shutil.rmtree(path.parent, ignore_errors=True)
        table(path).save(ONE)
        fs = StopFs(stop_at)
        file = table(path, fs)
        assert file.load() == ONE
        try:
            file.save(TWO)
        except StoreError as error:
            assert str(path) in str(error)
            assert load(path) in (ONE, TWO)
        else:
            break
        fs.stop_at = -1
        assert file.save(TWO)  # the same object goes on where it was stopped
        assert load(path) == TWO
        path.unlink()
        assert load(path) == ONE
    assert stop_at > 5
