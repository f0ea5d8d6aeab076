"""The whole store after a power cut: of what was not synced, any part may be there, down to pieces of 512 bytes.

Every call that changes a file is recorded. For moments all over that record a folder is made as a power cut could leave
it, the store is opened on it, and must keep its promises under SYNC_FLUSH: every message that was acknowledged is
there, at its place and offset, in order; what follows are messages that were sent, without a gap; queues and index
agree with the log; and the store goes on. A name that was not synced to its folder may be missing too.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.unit.store.kit import HandClock, QuickFs, bodies, open_small, send

from cometmq.store.config import ASYNC_FLUSH, SYNC_FLUSH
from cometmq.store.fs import Buffer

SECTOR = 512
Step = tuple[str, str, int, bytes]  # what, path, offset or size, data


class RecordingFs(QuickFs):
    """Remembers every change; `disk_at` makes a folder that a power cut could have left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.record: list[Step] = []
        self.paths: dict[int, str] = {}

    def note(self, what: str, path: str, number: int = 0, data: bytes = b"") -> None:
        self.record.append((what, path, number, data))

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        if create and not self.exists(path):
            self.note("create", path)
        fd = super().open(path, create=create, read_only=read_only)
        self.paths[fd] = path
        return fd

    def preallocate(self, fd: int, size: int) -> None:
        super().preallocate(fd, size)
        self.note("size", self.paths[fd], size)

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self.note("size", self.paths[fd], size)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        self.note("write", self.paths[fd], offset, bytes(data))
        return super().pwrite(fd, data, offset)

    def sync(self, fd: int) -> None:
        self.note("sync", self.paths[fd])

    def fsync_dir(self, path: str) -> None:
        self.note("sync_dir", path)

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.note("unlink", path)

    def disk_at(self, moment: int, chance: random.Random, keep: float, root: Path) -> None:
        """Make the folder `root` as a power cut after `moment` steps may leave it."""
        record = self.record[:moment]
        synced: dict[str, int] = {}
        named: dict[str, int] = {}
        for number, (what, path, _number, _data) in enumerate(record):
            if what == "sync":
                synced[path] = number
            elif what == "sync_dir":
                named[path] = number
        files: dict[str, bytearray] = {}
        for number, (what, path, at, data) in enumerate(record):
            if what == "create":
                if number < named.get(path.rpartition("/")[0], -1) or synced.get(path, -1) > number or keep:
                    files[path] = bytearray()
            elif path not in files:
                continue
            elif what == "unlink":
                if number < named.get(path.rpartition("/")[0], -1) or chance.random() < 0.5:
                    del files[path]
            elif what == "size":
                files[path] = files[path][:at].ljust(at, b"\0")
            elif what == "write":
                content = files[path]
                content.extend(bytes(max(at + len(data) - len(content), 0)))
                for sector in range(at // SECTOR * SECTOR, at + len(data), SECTOR):
                    if number < synced.get(path, -1) or chance.random() < keep:
                        start, end = max(sector, at), min(sector + SECTOR, at + len(data))
                        content[start:end] = data[start - at : end - at]
        for path, content in files.items():
            copy = root / Path(path).relative_to(self.root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0], ids=["unsynced all lost", "half lost", "all kept"])
@pytest.mark.parametrize(
    ("seed", "flush"), [*((seed, SYNC_FLUSH) for seed in range(3)), *((seed, ASYNC_FLUSH) for seed in range(2))]
)
def test_what_was_flushed_survives_a_power_cut(tmp_path: Path, seed: int, flush: str, keep: float) -> None:
    """SYNC_FLUSH acknowledges what is flushed; ASYNC_FLUSH sooner, and so may lose messages, but only the last ones."""
    chance = random.Random(seed)
    origin = tmp_path / "origin"
    fs, clock = RecordingFs(origin), HandClock()
    store = open_small(origin, fs, clock, flush_disk_type=flush)
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    acknowledged: list[tuple[int, dict[int, int]]] = []  # from this step on so many of each queue are promised
    for number in range(70):
        clock.ms += chance.randrange(5)
        queue_id = chance.randrange(2)
        body = bytes([number + 1]) * chance.randrange(1, 900)
        send(store, body, queue_id=queue_id, keys=f"k{queue_id}-{len(sent[queue_id])}")
        sent[queue_id].append(body)
        if chance.random() < 0.4:
            store.write()
            written = {key: len(queue) for key, queue in sent.items()}
            if flush == ASYNC_FLUSH:
                store.dispatch()
            if chance.random() < 0.7:
                store.flush_log()
                acknowledged.append((len(fs.record), written))
                store.dispatch()
        if chance.random() < 0.15:
            store.maintain(thorough=chance.random() < 0.5)
    store.abandon()

    for moment in range(chance.randrange(3), len(fs.record) + 1, 3):
        promised = {0: 0, 1: 0}
        for since, counts in acknowledged:
            if since <= moment:
                promised = counts
        left = tmp_path / "left"
        fs.disk_at(moment, chance, keep, left)
        again = open_small(left, clock=clock, flush_disk_type=flush)
        assert again.writable, again.fault
        where = f"{flush}, seed {seed}, keep {keep}, moment {moment}: {fs.record[moment - 1][:3]}"
        for queue_id, queue in sent.items():
            found = bodies(again, queue_id=queue_id)
            assert len(found) >= promised[queue_id], where
            assert found == queue[: len(found)], where
            for offset in range(len(found)):
                assert again.query("T", f"k{queue_id}-{offset}", 64, 0, 1 << 60), f"{where}, offset {offset}"
            assert send(again, b"on", queue_id=queue_id).queue_offset == len(found), where
        again.close()
        shutil.rmtree(left)
