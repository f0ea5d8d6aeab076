"""Row 2: a store's whole life is recorded, and cut from power at every sync point and everywhere between.

Each state is opened as a broker would open it. Under SYNC_FLUSH everything that was acknowledged is there; tables are
the last saved or a newer one; queues, index and log agree; and the store goes on. Some states are opened on a recording
disk too, and cut again in the middle of their recovery.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.unit.store.kit import FILE_UNITS, bodies, open_small, send, settle

from .harness.crash_disk import MODES, CrashDisk
from .harness.rows import Row
from .harness.workload import Workload

pytestmark = pytest.mark.timeout(600)

STEPS = 90
AGAIN = 0.02  # of the states are cut a second time, while they recover
AGAIN_STATES = 6


def test_every_crash_state_keeps_the_promises(quick_folder: Path) -> None:
    with Row(2, "crash states, SYNC_FLUSH", trimmed=4_000, full=100_000) as row:
        life = 0
        while row.done < row.count and not row.violations:
            live_and_cut(row, quick_folder, life)
            life += 1
        assert row.numbers["sync_points_covered"] == row.numbers["sync_points"]
        row.add(lives=life)


def live_and_cut(row: Row, folder: Path, life: int) -> None:
    chance = random.Random(f"{row.chance.random()} {life}")
    origin, left = folder / "origin", folder / "left"
    disk = CrashDisk(origin)
    segment = chance.choice((4096, 4096, 16384))
    workload = Workload(origin, disk, chance, note=lambda: len(disk.steps), mapped_file_size_commit_log=segment)
    workload.run(STEPS)
    assert not workload.errors, workload.errors
    syncs = disk.sync_points
    moments = sorted({moment for sync in syncs for moment in (sync, sync + 1)} | set(range(0, len(disk.steps) + 1, 5)))
    row.add(sync_points=len(syncs), sync_points_covered=len(set(syncs) & set(moments)))
    for moment in moments:
        for mode in MODES:
            disk.left_at(moment, mode, chance, left)
            what = f"life {life}, moment {moment} ({disk.steps[moment - 1][:4] if moment else ''}), {mode}: "
            if chance.random() < AGAIN:
                cut_again(row, workload, left, moment, chance, what)
            row.violations += [what + fault for fault in workload.judge(left, moment)]
            row.step()
            shutil.rmtree(left, ignore_errors=True)
            if row.violations:
                return
    shutil.rmtree(origin)


def cut_again(row: Row, workload: Workload, left: Path, moment: int, chance: random.Random, what: str) -> None:
    """Recover on a recording disk, and cut that short."""
    first, second = left.with_name("first"), left.with_name("second")
    if left.exists():
        shutil.copytree(left, first)
    disk = CrashDisk(first)
    Workload(first, disk, chance, **workload.config).run(0)
    for _ in range(AGAIN_STATES):
        again, mode = chance.randrange(len(disk.steps) + 1), chance.choice(MODES)
        disk.left_at(again, mode, chance, second)
        found = workload.judge(second, moment)
        row.violations += [f"{what}again at {again}, {mode}: {fault}" for fault in found]
        row.step()
        row.add(cut_twice=1)
        shutil.rmtree(second, ignore_errors=True)
    shutil.rmtree(first, ignore_errors=True)


def test_a_power_cut_after_a_kill(quick_folder: Path) -> None:
    """What a killed process had written and not synced is synced before the next one builds on it."""
    origin, left = quick_folder / "origin", quick_folder / "left"
    disk = CrashDisk(origin)
    store = open_small(origin, disk)
    for number in range(12):  # over two segments and more
        send(store, b"%d" % number * 600)
    store.write()
    store.dispatch()
    store.maintain()
    store.abandon()
    store = open_small(origin, disk)
    before = bodies(store)
    assert len(before) == 12
    send(store, b"acknowledged")
    settle(store)
    disk.left_at(len(disk.steps), "lose all", random.Random(0), left)
    store.abandon()
    store = open_small(left)
    assert bodies(store) == [*before, b"acknowledged"]
    store.close()


def test_a_power_cut_after_a_kill_and_a_clean_stop(quick_folder: Path) -> None:
    """The killed process had made a file and put nothing into it; the clean stop between had nothing to sync."""
    origin, left = quick_folder / "origin", quick_folder / "left"
    disk = CrashDisk(origin)
    store = open_small(origin, disk)
    send(store, b"never written")
    store.abandon()
    open_small(origin, disk).close()
    store = open_small(origin, disk)
    send(store, b"acknowledged")
    settle(store)
    disk.left_at(len(disk.steps), "lose all", random.Random(0), left)
    store.abandon()
    store = open_small(left)
    assert bodies(store) == [b"acknowledged"]
    store.close()


def test_a_power_cut_after_a_kill_that_left_an_empty_queue_file(quick_folder: Path) -> None:
    """The killed process had made the file of a queue and put nothing into it; its name is synced all the same."""
    origin, left = quick_folder / "origin", quick_folder / "left"
    disk = CrashDisk(origin)
    store = open_small(origin, disk)
    send(store, b"of a queue that is there", queue_id=1)
    settle(store)
    store.maintain(thorough=True)
    send(store, b"acknowledged")
    send(store, b"as well")
    store.write()
    store.flush_log()
    folder = str(origin / "consumequeue" / "T" / "0")
    disk.make_dirs(folder)
    fd = disk.open(f"{folder}/{0:020d}", create=True)
    disk.truncate(fd, FILE_UNITS * 20)
    disk.close(fd)
    store.abandon()
    store = open_small(origin, disk)
    store.maintain(thorough=True)
    disk.left_at(len(disk.steps), "lose all", random.Random(0), left)
    store.abandon()
    store = open_small(left)
    assert bodies(store) == [b"acknowledged", b"as well"]
    store.close()
