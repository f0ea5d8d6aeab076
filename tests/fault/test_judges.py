"""The judges are judged: each kind of violation is seen, and a store that lies about syncing is caught."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .harness import capabilities
from .harness.crash_disk import CrashDisk
from .harness.heard import Heard
from .harness.ledger import Found, Ledger, digest_of
from .harness.rows import Row
from .harness.workload import Workload

QUEUE = ("T", 0)


def message(offset: int, name: str) -> Found:
    return Found(offset, name, digest_of(name.encode()))


def a_ledger() -> Ledger:
    ledger = Ledger()
    for number in range(4):
        ledger.send(QUEUE, f"m{number}", f"m{number}".encode())
    for number in range(3):
        assert ledger.acknowledge(f"m{number}", 0, number) == []
    assert ledger.see(QUEUE, [message(0, "m0")]) == []
    return ledger


ALL = [message(number, f"m{number}") for number in range(4)]


@pytest.mark.parametrize(
    ("found", "rules"),
    [
        (ALL, set()),
        (ALL[:3], set()),  # the last was never acknowledged
        (ALL[:2], {"I1"}),
        ([], {"I1", "I5"}),
        ([ALL[0], ALL[1], message(2, "m3")], {"I1", "I2"}),
        ([ALL[0], ALL[1], ALL[2], message(4, "m3")], {"I2"}),
        ([ALL[0], message(1, "m2"), message(2, "m1")], {"I1", "I2", "I3"}),
        ([*ALL, message(4, "stranger")], {"I4"}),
        ([*ALL[:3], message(3, "m2")], {"I1", "I3", "I4"}),
        ([*ALL[:3], Found(3, "m3", digest_of(b"other"))], {"I4"}),
    ],
)
def test_the_ledger_sees_each_violation(found: list[Found], rules: set[str]) -> None:
    assert {fault[:2] for fault in a_ledger().check({QUEUE: found})} == rules


def test_the_ledger_sees_two_promises_for_one_place(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.send(QUEUE, "a", b"a")
    ledger.send(QUEUE, "b", b"b")
    assert ledger.acknowledge("a", 0, 7) == []
    assert ledger.acknowledge("b", 0, 7)[0].startswith("I2")
    ledger.close()
    assert (tmp_path / "ledger.jsonl").read_text().count("\n") == 4


class LyingDisk(CrashDisk):
    """Says that it has synced, and has not."""

    def sync(self, fd: int) -> None:
        pass


@pytest.mark.parametrize("disk_kind", [CrashDisk, LyingDisk])
def test_a_disk_that_lies_is_caught(quick_folder: Path, disk_kind: type[CrashDisk]) -> None:
    disk = disk_kind(quick_folder / "origin")
    chance = random.Random(3)
    workload = Workload(quick_folder / "origin", disk, chance, note=lambda: len(disk.steps))
    workload.run(60)
    disk.left_at(len(disk.steps), "lose all", chance, quick_folder / "left")
    faults = workload.judge(quick_folder / "left")
    assert bool(faults) == (disk_kind is LyingDisk), faults


def test_a_violation_fails_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULT_SHARE", raising=False)  # no result of this
    with pytest.raises(AssertionError, match="FAULT_SEED"), Row(0, "of nothing", trimmed=1, full=1) as row:
        row.violations.append("something is lost")


@pytest.mark.parametrize(
    ("times", "may"),
    [
        ([(10.0, 1)], True),
        ([(10.0, 1), (90.0, 2)], True),  # the first died soon after, and the second was late
        ([(9.0, 1), (90.0, 2)], False),
        ([(10.0, 2), (14.0, 3)], True),  # both live: the queue went from one to the other
        ([(10.0, 2), (16.0, 3)], False),
        ([(2.0, 1), (6.0, 2)], True),  # that the first died later has nothing to do with it
        ([(10.0, 1), (20.0, 2), (21.0, 3)], True),
        ([(10.0, 1), (20.0, 2), (26.0, 3)], False),
    ],
)
def test_what_may_come_again(monkeypatch: pytest.MonkeyPatch, times: list[tuple[float, int]], *, may: bool) -> None:
    monkeypatch.delenv("FAULT_SHARE", raising=False)  # no result of this
    heard = Heard({1: 14.5})
    heard.times["m"] = times[::-1]
    row = Row(0, "of nothing", trimmed=1, full=1)
    heard.judge(row)
    assert (not row.violations) == may
    assert row.numbers["again_after_deaths"] + row.numbers["again_as_queues_moved"] == len(times) - 1


def test_what_is_missing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "skipped", [])
    with pytest.raises(pytest.skip.Exception):
        capabilities.needs("a-program-that-is-not-there")
    assert capabilities.skipped == ["a-program-that-is-not-there"]
    assert len(capabilities.skipped) > capabilities.accepted()
