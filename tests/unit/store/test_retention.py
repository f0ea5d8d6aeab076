"""Which log files go, by hour, age, space and hand."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from cometmq.errors import ConfigError
from cometmq.store.config import StoreConfig
from cometmq.store.fs import OsFs
from cometmq.store.retention import MANUAL_ROUNDS, Retention, parse_hours

HOUR_MS = 3_600_000
CONFIG = StoreConfig(store_path_root_dir="/s", delete_when="04", file_reserved_time=72)


class Disk(OsFs):
    def __init__(self, ages_h: list[float], log_ratio: float = 0.5, queue_ratio: float = 0.5) -> None:
        self.now_ms_at = _local_ms(hour=12)
        self.ages_h = ages_h
        self.ratios = {"/s/commitlog": log_ratio, "/s/consumequeue": queue_ratio}

    def modified_ms(self, path: str) -> int:
        return self.now_ms_at - int(self.ages_h[int(path)] * HOUR_MS)

    def used_ratio(self, path: str) -> float:
        return self.ratios[path]

    # The clock: the same hands for both.
    def now_ms(self) -> int:
        return self.now_ms_at

    def monotonic_ms(self) -> int:
        return self.now_ms_at


def _local_ms(hour: int) -> int:
    return int(time.mktime((2025, 3, 5, hour, 30, 0, 0, 0, -1))) * 1000


def expired(disk: Disk, config: StoreConfig = CONFIG, retention: Retention | None = None) -> list[int]:
    retention = retention or Retention(disk, config, disk)
    return [int(path) for path in retention.expired([str(n) for n in range(len(disk.ages_h))])]


def at(hour: int, disk: Disk) -> Disk:
    disk.now_ms_at = _local_ms(hour)
    return disk


def test_old_files_go_in_their_hour_only() -> None:
    ages = [200, 100, 72, 71.9, 0]
    assert expired(at(4, Disk(ages))) == [0, 1, 2]
    assert expired(at(3, Disk(ages))) == []
    assert expired(at(16, Disk(ages)), replace(CONFIG, delete_when="04;16")) == [0, 1, 2]


def test_the_last_file_stays_and_no_hole_is_made() -> None:
    assert expired(at(4, Disk([100]))) == []
    assert expired(at(4, Disk([]))) == []
    assert expired(at(4, Disk([100, 100]))) == [0]
    assert expired(at(4, Disk([100, 1, 100, 0]))) == [0]


@pytest.mark.parametrize(
    ("log_ratio", "queue_ratio", "gone", "full"),
    [
        (0.75, 0.75, [], False),
        (0.07, 0.07, [], False),
        (0.751, 0.1, [0], False),  # 76 percent, rounded up
        (0.1, 0.80, [0], False),
        (0.85, 0.85, [0], False),
        (0.86, 0.1, [0, 1, 2], False),
        (0.1, 0.90, [0, 1, 2], False),
        (0.91, 0.1, [0, 1, 2], True),
        (0.1, 1.0, [0, 1, 2], True),
        (-1.0, 0.1, [0], False),
    ],
)
def test_space(log_ratio: float, queue_ratio: float, gone: list[int], full: bool) -> None:
    disk = Disk([100, 1, 1, 0], log_ratio, queue_ratio)
    retention = Retention(disk, CONFIG, disk)
    assert expired(disk, retention=retention) == gone
    assert retention.disk_full is full


def test_a_full_disk_takes_messages_again_below_the_forced_ratio() -> None:
    disk = Disk([1, 0], 0.95)
    retention = Retention(disk, CONFIG, disk)
    for ratio, full in ((0.95, True), (0.88, True), (0.85, False), (0.88, False), (0.91, True)):
        disk.ratios["/s/commitlog"] = ratio
        retention.expired(["0", "1"])
        assert retention.disk_full is full


def test_not_by_force_where_that_is_off() -> None:
    assert expired(Disk([100, 1, 0], 0.95), replace(CONFIG, clean_file_forcibly_enable=False)) == [0]


def test_by_hand_for_some_rounds_and_in_batches() -> None:
    disk = Disk([100] * 25)
    retention = Retention(disk, CONFIG, disk)
    assert expired(disk, retention=retention) == []
    retention.delete_by_hand()
    for _ in range(MANUAL_ROUNDS):
        assert expired(disk, retention=retention) == list(range(10))
    assert expired(disk, retention=retention) == []


def test_ratios_are_kept_within_javas_limits() -> None:
    wild = replace(
        CONFIG, disk_max_used_space_ratio=1, disk_space_clean_forcibly_ratio=100, disk_space_warning_level_ratio=100
    )
    assert expired(Disk([100, 1, 0], 0.09, 0.1), wild) == []
    assert expired(Disk([100, 1, 0], 0.101, 0.1), wild) == [0]
    assert expired(Disk([100, 1, 0], 0.86, 0.1), wild) == [0, 1]


@pytest.mark.parametrize("text", ["", ";", "four", "04:00", "-1", "24", "4;x"])
def test_hours_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="deleteWhen"):
        parse_hours(text)
