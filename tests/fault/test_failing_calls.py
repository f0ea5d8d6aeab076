"""Rows 4 and 5: every call that a store makes to its disk fails once, in every way it can.

The store may refuse, fence itself or try again; it never acknowledges what is not on the disk. Afterwards the process
dies, or the power fails, and the next start on a sound disk finds everything that was acknowledged.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from cometmq.store import lock

from .harness.failing_disk import FAULTS, SHORT_WRITE, FailingDisk
from .harness.rows import Row
from .harness.workload import Workload

pytestmark = pytest.mark.timeout(600)

STEPS = 45
ENDS = ("keep all", "lose all")  # the process dies, the power fails


def live(root: Path, life: str, fail_at: int, fault: str) -> tuple[Workload, FailingDisk]:
    disk = FailingDisk(root, fail_at, fault)
    workload = Workload(root, disk, random.Random(life), note=lambda: len(disk.steps))
    workload.run(STEPS)
    return workload, disk


def test_every_call_fails_once(quick_folder: Path) -> None:
    """Of a life's calls every one, or every n-th of the trimmed numbers, with each fault in turn."""
    root, left = quick_folder / "root", quick_folder / "left"
    with Row(4, "every call to the disk fails once", trimmed=700, full=40_000) as row:
        kinds: Counter[str] = Counter()
        number = 0
        while row.done < row.count and len(row.violations) < 5:
            life = f"{row.chance.random()}"
            _, disk = live(root, life, -1, "")
            calls = disk.calls
            shutil.rmtree(root)
            row.add(lives=1)
            for at, fault in product(range(len(calls)), FAULTS):
                if fault == SHORT_WRITE and not calls[at].startswith("pwrite"):
                    continue
                number += 1
                if row.count < 10_000 and number % 2:
                    continue
                what = f"life {life}, call {at} ({calls[at]}) fails with {fault}"
                try:
                    workload, disk = live(root, life, at, fault)
                except Exception as error:
                    row.violations.append(f"{what}: {error!r} came out")
                    break
                else:
                    kinds[f"{disk.failed} {fault}"] += 1
                    if str(root.resolve() / lock.LOCK_NAME) in lock._held_here:
                        row.violations.append(f"{what}: the lock is still held")
                        break
                    end = ENDS[number // 2 % 2]
                    disk.left_at(len(disk.steps), end, row.chance, left)
                    row.violations += [f"{what}, then {end}: {found}" for found in workload.judge(left)]
                shutil.rmtree(root, ignore_errors=True)
                shutil.rmtree(left, ignore_errors=True)
                row.step()
                if row.done >= row.count:
                    break
        row.numbers["kinds"] = dict(sorted(kinds.items()))
