"""The judges are judged: each kind of violation is seen, and a store that lies about syncing is caught."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.store.engine import Store
from cometmq.wire.record import Record, decode_record

from .harness import capabilities, delayed
from .harness.crash_disk import CrashDisk
from .harness.damage import Victim, kill_a_store
from .harness.heard import Heard
from .harness.jumping import WallClock
from .harness.keys import wrongly_found
from .harness.ledger import Found, Ledger, digest_of
from .harness.rows import Row
from .harness.workload import Workload
from .test_clock_jumps_under_load import Later, Waiting, wrong_times
from .test_damaged_files import flip, tear
from .test_ha_stream import MasterLog

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
    with (
        pytest.raises(AssertionError, match="FAULT_SHARE= FAULT_SEED="),
        Row(0, "of nothing", trimmed=1, full=1) as row,
    ):
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


def test_what_is_chosen_for_one_hangs_on_no_other() -> None:
    row, again = (Row(0, "of several at a time", trimmed=2, full=2) for _ in range(2))
    one, other = row.chance_of(0).random(), row.chance_of(1).random()
    assert (again.chance_of(1).random(), again.chance_of(0).random()) == (other, one)
    assert one != other


def test_what_is_missing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "skipped", [])
    with pytest.raises(pytest.skip.Exception):
        capabilities.needs("a-program-that-is-not-there")
    assert capabilities.skipped == ["a-program-that-is-not-there"]
    assert len(capabilities.skipped) > capabilities.accepted()


class ForgetfulVictim(Victim):
    """The store that is opened is another one, which lacks the last message but one."""

    def open(self, root: Path) -> Store:
        kill_a_store(root.parent / "other", len(self.messages) - 2)
        return super().open(root.parent / "other")


class StubbornVictim(Victim):
    """The store is not opened, for no reason that a store may have."""

    def open(self, root: Path) -> Store:
        raise ValueError("no")


VICTIMS = pytest.mark.parametrize("kind", [Victim, ForgetfulVictim, StubbornVictim])


def a_victim(folder: Path, kind: type[Victim]) -> Victim:
    made = kill_a_store(folder / "made", 12, unsynced=2)
    return kind(**vars(made))


@pytest.mark.parametrize("kind", [Victim, ForgetfulVictim])
def test_a_message_that_is_lost_is_missed(quick_folder: Path, kind: type[Victim]) -> None:
    victim = a_victim(quick_folder, kind)
    victim.lay_out(quick_folder / "left")
    store = victim.open(quick_folder / "left")
    assert bool(victim.judge(store)) == bool(victim.judge_in_order(store)) == (kind is not Victim)
    assert victim.judge(store, but=10) == victim.judge(store)[1:]  # one of the two is excused
    store.abandon()


@VICTIMS
def test_a_torn_tail_that_costs_more_is_seen(quick_folder: Path, kind: type[Victim], row: Row) -> None:
    victim = a_victim(quick_folder, kind)
    cut = victim.messages[-1].place.physical_offset + 20
    name = "commitlog/" + "0" * 20
    faults = tear(row, victim, quick_folder / "torn", name, 0, cut, "zeros", row.chance)
    assert bool(faults) == (kind is not Victim), faults


@VICTIMS
@pytest.mark.parametrize("name", ["checkpoint", "commitlog/" + "0" * 20])
def test_a_flipped_bit_that_costs_more_is_seen(quick_folder: Path, kind: type[Victim], name: str, row: Row) -> None:
    victim = a_victim(quick_folder, kind)
    faults = flip(row, victim, quick_folder, name, 8 * 100, 0 if name != "checkpoint" else -1)
    assert bool(faults) == (kind is not Victim), faults


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Row:
    monkeypatch.delenv("FAULT_SHARE", raising=False)
    return Row(0, "of nothing", trimmed=1, full=1)


def test_a_slave_that_is_no_beginning_of_its_master_is_seen(quick_folder: Path) -> None:
    log = MasterLog(quick_folder)
    sure, believed = log.ends[3], log.ends[5]
    assert log.judge(log.data[:believed], believed, sure, believed) == []
    spoilt = b"x" + log.data[1:believed]
    for at, kept in ((believed, spoilt), (believed, log.data[: believed - 1]), (sure - 1, log.data[: sure - 1])):
        assert len(log.judge(kept, at, sure, believed)) == 1
    ahead = log.ends[6]
    assert len(log.judge(log.data[:ahead], ahead, sure, believed)) == 1


def a_record(folder: Path, body: bytes, store_time_ms: float) -> Record:
    victim = kill_a_store(folder, 1)
    raw = victim.files["commitlog/" + "0" * 20]
    return replace(decode_record(raw), body=body, store_time_ms=int(store_time_ms))


def test_what_comes_twice_early_or_never_is_seen(quick_folder: Path) -> None:
    later = delayed.Delayed(quick_folder)
    now_ms = time.time() * 1000
    later._sent_ms = {"later0": now_ms, "later1": now_ms}
    zero, one, early, other = (
        a_record(quick_folder / name, name.encode(), now_ms + after_ms)
        for name, after_ms in [("later0", 4_000), ("later1", 4_000), ("later1", 2_000), ("stranger", 4_000)]
    )
    assert later.judge([zero, one]) == []
    for found in ([zero], [zero, one, one], [zero, early], [zero, one, other]):
        assert len(later.judge(found)) == 1


@pytest.mark.parametrize(
    ("bodies", "again", "count"),
    [(["a"], 0, 0), ([], 1, 1), (["b"], 1, 1), (["a", "b"], 1, 1), (["a", "a"], 1, 0), (["a", "a"], 0, 1)],
)
def test_a_key_that_finds_something_else_is_seen(bodies: list[str], again: int, count: int) -> None:
    assert len(wrongly_found({"a": bodies}, again=again)) == count


def test_a_key_that_finds_a_message_three_times_is_seen() -> None:
    assert len(wrongly_found({"a": ["a"] * 3}, again=5)) == 1
    assert len(wrongly_found({name: [name] * 2 for name in "abc"}, again=1)) == 2


def test_a_clock_that_lets_messages_come_early_or_twice_is_seen(quick_folder: Path) -> None:
    now_ms, now_s = 1_700_000_000_000, time.monotonic()
    record = a_record(quick_folder, b"one", now_ms)

    def faults(found: list[Record], early_s: float, waits_s: float) -> list[str]:
        waiting = {"one": Waiting(now_ms + int(early_s * 1000), now_s + waits_s)}
        return Later(WallClock(quick_folder / "ahead"), waiting).judge(found)

    assert faults([record], 0, 0) == faults([record], 60, -1) == faults([record], -60, 60) == []
    assert len(faults([record], 60, 60)) == 1
    assert len(faults([record, record], 0, 0)) == 1


def test_store_times_that_fall_are_seen(quick_folder: Path) -> None:
    times = (5_000, 5_000, 7_000)
    records = [replace(a_record(quick_folder, b"", ms), physical_offset=at) for at, ms in enumerate(times)]
    assert wrong_times(records) == []
    assert len(wrong_times([*records, replace(records[0], physical_offset=3)])) == 1
