"""Wheel, timer log and checkpoint: their bytes, and what recovery makes of what a kill or a power cut left."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.unit.store.kit import QuickFs

from cometmq.errors import StoreError
from cometmq.store.timer_checkpoint import TimerCheckpoint
from cometmq.store.timer_files import TimerFiles
from cometmq.store.timer_log import DELETE, UNIT_SIZE, TimerLog
from cometmq.store.timer_wheel import FILE_SIZE, SLOTS, TimerWheel

NOW_MS = 1_700_000_000_000
UNITS_PER_FILE = 3
LOG_FILE_SIZE = UNITS_PER_FILE * UNIT_SIZE + 20
LOG_END = 1 << 40


def open_files(root: Path, log_end: int = LOG_END) -> TimerFiles:
    files = TimerFiles(QuickFs(), str(root), precision_ms=1000, log_file_size=LOG_FILE_SIZE)
    files.open(log_end)
    return files


def place(files: TimerFiles, number: int, slot_ms: int = NOW_MS, magic: int = 1) -> int:
    return files.place(slot_ms, NOW_MS - 1000, magic, number * 100, 100, 7, slot_ms + number)


def offsets(files: TimerFiles, slot_ms: int = NOW_MS) -> list[int]:
    slot = files.wheel.slot(slot_ms)
    return [] if slot is None else [unit.offset // 100 for _, unit in reversed([*files.log.chain(slot.last_pos)])]


def test_a_unit_is_laid_out_as_the_original_lays_it_out(tmp_path: Path) -> None:
    log = TimerLog(QuickFs(), str(tmp_path / "timerlog"), LOG_FILE_SIZE)
    log.load(0)
    log.append(-1, 3, NOW_MS, 5_000, 4242, 313, -77, NOW_MS + 5_000)
    log.write()
    data = (tmp_path / "timerlog" / ("0" * 20)).read_bytes()
    assert data[:52] == struct.pack(">iqiqiqiiq", 52, -1, 3, NOW_MS, 5_000, 4242, 313, -77, NOW_MS + 5_000)
    assert len(data) == LOG_FILE_SIZE


def test_a_file_of_the_log_ends_with_a_blank(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    positions = [place(files, number) for number in range(UNITS_PER_FILE + 1)]
    files.write()
    assert positions[-1] == LOG_FILE_SIZE
    data = (tmp_path / "timerlog" / ("0" * 20)).read_bytes()
    magic = (0xBBCCDDEE ^ (1880681586 + 8)) & 0xFFFFFFFF
    assert data[UNITS_PER_FILE * UNIT_SIZE :][:16] == struct.pack(">iqI", 20, 0, magic)
    assert offsets(files) == [0, 1, 2, 3]


def test_a_slot_is_laid_out_as_the_original_lays_it_out(tmp_path: Path) -> None:
    wheel = TimerWheel(QuickFs(), str(tmp_path / "timerwheel"), 1000)
    wheel.load()
    assert wheel.slot(NOW_MS) is None
    wheel.put(NOW_MS, 52, 104, 2)
    assert wheel.slot(NOW_MS + 999) == (NOW_MS, 52, 104, 2)
    wheel.write()
    data = (tmp_path / "timerwheel").read_bytes()
    assert len(data) == FILE_SIZE == 38_707_200
    at = NOW_MS // 1000 % SLOTS * 32
    assert data[at : at + 32] == struct.pack(">qqqii", NOW_MS // 1000, 52, 104, 2, 0)
    assert wheel.slot(NOW_MS + SLOTS * 1000) is None, "the same slot, another time"
    assert wheel.times(0) == [NOW_MS]
    assert wheel.times(NOW_MS + 1000) == []


def test_a_wheel_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "timerwheel").write_bytes(b"x" * 33)
    with pytest.raises(StoreError, match="not the 38707200 of a timer wheel"):
        TimerWheel(QuickFs(), str(tmp_path / "timerwheel"), 1000).load()


def test_the_checkpoint_is_laid_out_as_the_original_lays_it_out(tmp_path: Path) -> None:
    path = tmp_path / "config" / "timercheck"
    checkpoint = TimerCheckpoint(QuickFs(), str(path))
    checkpoint.load()
    assert checkpoint.scan_offset is None
    checkpoint.read_time_ms, checkpoint.log_flushed_pos = NOW_MS, 104
    checkpoint.queue_offset = checkpoint.master_queue_offset = 9
    checkpoint.timestamp_ms, checkpoint.counter, checkpoint.scan_offset = 5, 6, 777
    checkpoint.save(checkpoint.pack_all())
    data = path.read_bytes()
    assert len(data) == 4096
    assert data[:56] == struct.pack(">7q", NOW_MS, 104, 9, 9, 0, 5, 6) == checkpoint.pack()
    again = TimerCheckpoint(QuickFs(), str(path))
    again.load()
    assert (again.pack(), again.scan_offset) == (checkpoint.pack(), 777)
    path.write_bytes(struct.pack(">7q", NOW_MS + 1000, 104, 9, 9, 0, 5, 6) + data[56:])  # as Java goes on
    again.load()
    assert again.scan_offset is None, "Java wrote last"


@pytest.mark.parametrize("count", [1, UNITS_PER_FILE, UNITS_PER_FILE + 1, 4 * UNITS_PER_FILE])
def test_what_was_written_is_found_again(tmp_path: Path, count: int) -> None:
    files = open_files(tmp_path)
    for number in range(count):
        place(files, number, NOW_MS + number % 2 * 1000)
    files.write()
    end = files.log.end
    files.close()
    files = open_files(tmp_path)
    assert files.log.end in (end, end + 20)
    assert offsets(files) + offsets(files, NOW_MS + 1000) == [*range(0, count, 2), *range(1, count, 2)]
    assert place(files, count) >= end


def test_units_that_the_wheel_does_not_know_are_chained(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    place(files, 0)
    files.write()
    place(files, 1)
    place(files, 2, NOW_MS + 5000)
    files.log.write()  # killed before the wheel
    files.close()
    files = open_files(tmp_path)
    assert offsets(files) == [0, 1]
    assert offsets(files, NOW_MS + 5000) == [2]
    assert files.number_at(NOW_MS) == 2


def test_units_whose_message_was_lost_are_cut_off(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    for number in range(5):
        place(files, number, NOW_MS + number // 4 * 1000)
    files.write()
    files.close()
    files = open_files(tmp_path, log_end=300)
    assert offsets(files) == [0, 1, 2]
    assert offsets(files, NOW_MS + 1000) == []
    place(files, 9)
    files.write()
    files.close()
    assert offsets(open_files(tmp_path)) == [0, 1, 2, 9]


def test_a_passed_slot_does_not_disturb_a_later_one(tmp_path: Path) -> None:
    """The same slot of the wheel, two weeks apart; the older unit is still in the log."""
    files = open_files(tmp_path)
    place(files, 0)
    later_ms = NOW_MS + SLOTS * 1000
    place(files, 1, later_ms)
    files.write()
    files.close()
    files = open_files(tmp_path)
    assert offsets(files, later_ms) == [1]
    assert offsets(files) == []


def test_what_is_placed_already_is_named(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    for number in range(7):
        place(files, number)
    files.write()
    assert files.placed_since(400) == {400, 500, 600}
    assert files.placed_since(0) == {number * 100 for number in range(7)}


@pytest.mark.parametrize("kept", [[], [1, 3]])
def test_a_half_delivered_slot_keeps_what_waits(tmp_path: Path, kept: list[int]) -> None:
    files = open_files(tmp_path)
    positions = [place(files, number) for number in range(4)]
    files.write()
    units = [unit for pos in positions if (unit := files.log.unit_at(pos)) is not None]
    files.replace(NOW_MS, NOW_MS, [unit for unit in units if unit.offset // 100 in kept], units[0])
    files.write()
    files.close()
    files = open_files(tmp_path)
    slot = files.wheel.slot(NOW_MS)
    assert slot is not None
    assert slot.number == len(kept)
    left = [unit for _, unit in reversed([*files.log.chain(slot.last_pos)])]
    assert [unit.offset // 100 for unit in left if not unit.magic & DELETE] == kept


def test_old_files_go_when_their_messages_are_gone_and_their_time_is_past(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    for number in range(3 * UNITS_PER_FILE):
        place(files, number)
    files.write()
    assert files.delete_before(0, NOW_MS) == []
    assert files.delete_before(10_000, NOW_MS - 1000) == []
    gone = files.delete_before(350, NOW_MS)
    assert [Path(path).name for path in gone] == ["0" * 20]
    files.remove(gone)
    files.close()
    files = open_files(tmp_path)
    assert offsets(files) == [3, 4, 5, 6, 7, 8], "what its chain names before that is gone"


def test_a_log_without_its_checkpoint_is_read_from_the_start(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    for number in range(8):
        place(files, number)
    files.write()
    files.prepare_flush()()
    files.close()
    (tmp_path / "config" / "timercheck").unlink()
    (tmp_path / "timerwheel").unlink()
    assert offsets(open_files(tmp_path)) == list(range(8))


def test_a_flush_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    """A stop cancels who waits for a flush; the thread may do it after the last one, or after the files are closed."""
    files = open_files(tmp_path)
    place(files, 0)
    files.write()
    files.checkpoint.queue_offset = 1
    early = files.prepare_flush()
    files.checkpoint.queue_offset = 2
    last = files.prepare_flush()
    last()
    early()
    files.checkpoint.queue_offset = 3
    too_late = files.prepare_flush()
    files.close()
    too_late()
    again = open_files(tmp_path)
    assert again.checkpoint.queue_offset == 2
    again.close()


def test_the_later_flush_syncs_for_the_earlier(tmp_path: Path) -> None:
    synced: list[int] = []

    class Noted(QuickFs):
        def sync(self, fd: int) -> None:
            synced.append(fd)

    files = TimerFiles(Noted(), str(tmp_path), precision_ms=1000, log_file_size=LOG_FILE_SIZE)
    files.open(LOG_END)
    place(files, 0)
    files.write()
    files.prepare_flush()
    synced.clear()
    files.prepare_flush()()
    assert len(synced) == 3, "log, wheel and checkpoint"
    files.close()


class NoSync(QuickFs):
    """A disk that cannot sync, once."""

    failures = 1

    def sync(self, fd: int) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(5, "Input/output error")


def test_after_a_failed_sync_the_checkpoint_stays_where_it_was(tmp_path: Path) -> None:
    files = TimerFiles(NoSync(), str(tmp_path), precision_ms=1000, log_file_size=LOG_FILE_SIZE)
    files.open(LOG_END)
    before = (tmp_path / "config" / "timercheck").read_bytes()
    place(files, 0)
    files.write()
    files.checkpoint.queue_offset = 1
    for _ in range(2):
        with pytest.raises(StoreError, match="its progress is no longer saved"):
            files.prepare_flush()()
    assert (tmp_path / "config" / "timercheck").read_bytes() == before
