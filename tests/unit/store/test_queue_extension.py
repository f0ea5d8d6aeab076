"""Codes that Java keeps beside the queue."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest
from tests.unit.store.kit import small_config

from cometmq.errors import ConfigError
from cometmq.store.fs import OsFs
from cometmq.store.queue_extension import ADDRESS_MAX, QueueExtension

FIRST = -(1 << 63)
FILE_SIZE = 64


@pytest.fixture
def extension(tmp_path: Path) -> QueueExtension:
    folder = tmp_path / "consumequeue_ext" / "T" / "3"
    folder.mkdir(parents=True)
    unit = pack(">hqqh", 28, 77, 5, 8) + bytes(8)
    (folder / f"{0:020d}").write_bytes((unit * 2).ljust(FILE_SIZE - 4, b"\0") + pack(">i", -1))
    (folder / f"{FILE_SIZE:020d}").write_bytes(pack(">hqqh", 20, -5, 5, 0) + b"\0\x14")
    return QueueExtension(OsFs(), small_config(tmp_path, mapped_file_size_consume_queue_ext=FILE_SIZE))


@pytest.mark.parametrize(("place", "code"), [(0, 77), (28, 77), (FILE_SIZE, -5)])
def test_found(extension: QueueExtension, place: int, code: int) -> None:
    assert FIRST + place <= ADDRESS_MAX
    assert extension.code_at("T", 3, FIRST + place) == code


@pytest.mark.parametrize("place", [56, FILE_SIZE + 20, FILE_SIZE + 30, 10 * FILE_SIZE, 1 << 62])
def test_nothing_there(extension: QueueExtension, place: int) -> None:
    assert extension.code_at("T", 3, FIRST + place) is None


def test_another_queue(extension: QueueExtension) -> None:
    assert extension.code_at("T", 0, FIRST) is None
    assert extension.code_at("U", 3, FIRST) is None


def test_several_folders_for_one_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one folder is possible"):
        small_config(tmp_path, store_path_commit_log="/a,/b")
