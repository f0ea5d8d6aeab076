"""A store whose index met a full disk: messages go on, and the next start indexes what is missing."""

from __future__ import annotations

import errno
from pathlib import Path

from tests.unit.store.kit import HandClock, QuickFs, open_small, send


class NoIndexFs(QuickFs):
    refuse = False

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        if self.refuse and create and "/index/" in path:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().open(path, create=create, read_only=read_only)


def test_what_was_not_indexed_is_indexed_by_the_next_start(tmp_path: Path) -> None:
    fs, clock = NoIndexFs(), HandClock()
    store = open_small(tmp_path, fs, clock, max_index_num=8)
    sent = []
    for n in range(30):
        fs.refuse = n > 5
        clock.ms += 1000
        sent.append(send(store, b"x", keys=f"key{n}").physical_offset)
        store.write()
        store.flush_log()
        store.dispatch()
        store.maintain(thorough=True)
    assert store.writable
    store.close()
    assert (tmp_path / "abort").exists()
    fs.refuse = False
    again = open_small(tmp_path, fs, clock, max_index_num=8)
    found = [again.query("T", f"key{n}", 8, 0, 1 << 62) for n in range(30)]
    assert [[offset for offset, _ in one] for one in found] == [[offset] for offset in sent]
    again.close()
    assert not (tmp_path / "abort").exists()
