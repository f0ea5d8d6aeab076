"""The index after a power cut: of what was not synced, any part may be there.

Every call that reaches the disk is recorded. For every moment in that record a disk is made as a power cut could
leave it: all that was synced, and a random choice of what was not, down to pieces of 512 bytes. The index is then
loaded as after a kill and the whole log replayed. Promised: what the checkpoint claimed is found before the replay;
after it every message is found exactly once, and nothing else is.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from cometmq.store import index_file
from cometmq.store.config import StoreConfig
from cometmq.store.fs import Buffer, OsFs
from cometmq.store.index import IndexService

EVER = (0, 1 << 62)
T0 = 1_700_000_000_000
SECTOR = 512


class RecordingFs(OsFs):
    """Remembers, in order, every write (path, offset, bytes), every sync (path) and every note of the test (number)."""

    def __init__(self) -> None:
        self.record: list[tuple[str, int, bytes] | str | int] = []
        self.paths: dict[int, str] = {}
        self.sizes: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        fd = super().open(path, create=create, read_only=read_only)
        self.paths[fd] = path
        return fd

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self.sizes[self.paths[fd]] = size

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        self.record.append((self.paths[fd], offset, bytes(data)))
        return super().pwrite(fd, data, offset)

    def sync(self, fd: int) -> None:
        self.record.append(self.paths[fd])
        super().sync(fd)

    def disk_at(self, moment: int, chance: random.Random) -> dict[str, bytearray]:
        """File contents after a power cut at this point of the record."""
        record = self.record[:moment]
        synced = {path: max((n for n, step in enumerate(record) if step == path), default=-1) for path in self.sizes}
        disk: dict[str, bytearray] = {}
        for n, step in enumerate(record):
            if not isinstance(step, tuple):
                continue
            path, offset, data = step
            content = disk.setdefault(path, bytearray(self.sizes[path]))
            for sector in range(offset // SECTOR * SECTOR, offset + len(data), SECTOR):
                if n < synced[path] or chance.random() < 0.5:
                    start, end = max(sector, offset), min(sector + SECTOR, offset + len(data))
                    content[start:end] = data[start - offset : end - offset]
        return disk


def make(folder: Path, fs: OsFs, *, clean: bool, index_ms: int) -> IndexService:
    index = IndexService(fs, str(folder), StoreConfig(max_hash_slot_num=300, max_index_num=120))
    index.load(clean, index_ms)
    return index


def put(index: IndexService, n: int) -> None:
    index.put("T", [f"k{n}", f"shared{n % 7}"], n * 100, T0 + n * 300)


def found(index: IndexService, n: int) -> list[int]:
    return index.query("T", f"k{n}", 64, *EVER)


@pytest.mark.parametrize("seed", range(4))
def test_power_may_fail_at_any_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(index_file, "SPILL_SIZE", 500)
    chance = random.Random(seed)
    fs = RecordingFs()
    written = tmp_path / "written"
    index = make(written, fs, clean=True, index_ms=0)
    count = 160
    for n in range(count):
        put(index, n)
        if chance.random() < 0.15:
            index.flush()
            fs.record.append(index.flushed_store_time_ms)
    index.close()
    for moment in range(seed, len(fs.record) + 1, 4):
        claimed_ms = max((step for step in fs.record[:moment] if isinstance(step, int)), default=0)
        left = tmp_path / "left"
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
        for path, content in fs.disk_at(moment, chance).items():
            (left / Path(path).name).write_bytes(content)
        again = make(left, OsFs(), clean=False, index_ms=claimed_ms)
        claimed = [n for n in range(count) if T0 + n * 300 <= claimed_ms]
        assert [found(again, n) for n in claimed] == [[n * 100] for n in claimed], f"seed {seed}, moment {moment}"
        for n in range(count):
            put(again, n)
        assert [found(again, n) for n in range(count)] == [[n * 100] for n in range(count)], f"{seed}, {moment}"
        for word in range(7):
            offsets = [n * 100 for n in reversed(range(count)) if n % 7 == word]
            assert again.query("T", f"shared{word}", 64, *EVER) == offsets
        again.close()
