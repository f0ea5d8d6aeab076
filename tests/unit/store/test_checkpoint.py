"""The checkpoint page: kept, grown, and never in the way of recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.store.checkpoint import FILE_SIZE, SECOND_AT, Checkpoint
from cometmq.store.fs import OsFs


class CountingFs(OsFs):
    syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


def opened(path: Path, fs: OsFs | None = None) -> Checkpoint:
    checkpoint = Checkpoint(fs or OsFs(), str(path))
    checkpoint.load()
    return checkpoint


def test_what_is_flushed_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    first = opened(path)
    assert (first.physic_ms, first.logics_ms, first.index_ms, first.min_ms) == (0, 0, 0, 0)
    first.physic_ms, first.logics_ms, first.index_ms = 10_000, 9_000, 2_000
    first.flush()
    second = opened(path)
    assert (second.physic_ms, second.logics_ms, second.index_ms) == (10_000, 9_000, 2_000)
    assert (second.min_ms, second.min_index_ms) == (6_000, 2_000)
    first.close()
    second.close()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 47, 48, 4095])
def test_a_short_file_counts_as_zeros_behind_its_end_and_is_grown(tmp_path: Path, size: int) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes((b"\0" * 7 + b"\x09") * (size // 8) + b"\0" * (size % 8))
    checkpoint = opened(path)
    assert checkpoint.physic_ms == (9 if size >= 8 else 0)
    assert checkpoint.logics_physical_offset == (9 if size >= 48 else 0)
    checkpoint.close()
    assert path.stat().st_size == FILE_SIZE


def test_what_stands_behind_the_fields_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(bytes(48) + b"x" * (FILE_SIZE - 48))
    checkpoint = opened(path)
    checkpoint.physic_ms = 5
    checkpoint.close()
    kept = path.read_bytes()
    assert kept[48:SECOND_AT] + kept[SECOND_AT + 60 :] == b"x" * (FILE_SIZE - 48 - 60)


@pytest.mark.parametrize("at", [*range(48), *range(SECOND_AT, SECOND_AT + 60)])
def test_a_flipped_bit_is_noticed(tmp_path: Path, at: int) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = opened(path)
    checkpoint.physic_ms, checkpoint.logics_ms, checkpoint.logics_physical_offset = 1 << 40, 1 << 41, 77
    checkpoint.flushed = 99
    checkpoint.close()
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << at % 8
    path.write_bytes(data)
    checkpoint = opened(path)
    assert (checkpoint.physic_ms, checkpoint.logics_ms, checkpoint.logics_physical_offset) == (1 << 40, 1 << 41, 77)
    assert (checkpoint.flushed, checkpoint.vouches) == (0, False)
    checkpoint.close()


def test_it_vouches_until_another_program_writes(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = opened(path)
    assert checkpoint.says_nothing and not checkpoint.vouches
    checkpoint.physic_ms, checkpoint.flushed = 1000, 99
    checkpoint.close()
    checkpoint = opened(path)
    assert (checkpoint.vouches, checkpoint.flushed, checkpoint.proven_ms) == (True, 99, 1000)
    checkpoint.let_go()
    whole = path.read_bytes()
    path.write_bytes((2000).to_bytes(8) + whole[8:])  # as Java does, which writes the first copy only
    checkpoint = opened(path)
    assert (checkpoint.vouches, checkpoint.flushed, checkpoint.proven_ms) == (False, 0, 2000)
    assert checkpoint.physic_ms == 1000 and not checkpoint.says_nothing  # recovery begins where it surely may
    checkpoint.flush()
    checkpoint.close()
    checkpoint = opened(path)
    assert checkpoint.vouches and checkpoint.flushed == 0
    checkpoint.close()


@pytest.mark.parametrize("time_ms", [1 << 60, 1 << 63, (1 << 64) - 1], ids=hex)
def test_a_time_far_ahead_proves_nothing(tmp_path: Path, time_ms: int) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(time_ms.to_bytes(8) + bytes(FILE_SIZE - 8))
    checkpoint = opened(path)
    assert checkpoint.proven_ms == 0 and checkpoint.says_nothing
    checkpoint.let_go()


def test_nothing_new_is_not_written_again(tmp_path: Path) -> None:
    fs = CountingFs()
    checkpoint = opened(tmp_path / "checkpoint", fs)
    checkpoint.flush()
    checkpoint.flush()
    assert fs.syncs == 1
    checkpoint.index_ms = 1
    checkpoint.close()
    checkpoint.close()
    assert fs.syncs == 2
