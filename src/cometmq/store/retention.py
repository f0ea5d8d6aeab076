"""Which files of the CommitLog may go now.

Oldest first, never the last, never one behind a file that stays, at most `deleteFileBatchMax` at a time:

    used space          what goes
    ≤ 75 %              files older than fileReservedTime, in the hours of deleteWhen or when asked for by hand
    > 75 %              files older than fileReservedTime, now
    > 85 %              the oldest, whatever their age, read or not (unless cleanFileForciblyEnable is off)
    > 90 %              the same, and no message is taken until 85 % is reached again

The fuller of the two partitions of log and queues decides. What queues and index keep of deleted messages goes
next, by `delete_before` of each. The age of a file is the time since its last change.

Mirrors: DefaultMessageStore.CleanCommitLogService, MappedFileQueue.deleteExpiredFileByTime.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from cometmq.clock import Clock
from cometmq.errors import ConfigError
from cometmq.store.config import StoreConfig
from cometmq.store.fs import FileSystem

MANUAL_ROUNDS: Final = 20
_HOUR_MS: Final = 3_600_000


class Retention:
    """Decides; whoever owns the files deletes them."""

    def __init__(self, fs: FileSystem, config: StoreConfig, clock: Clock) -> None:
        self._fs = fs
        self._config = config
        self._clock = clock
        self._hours = parse_hours(config.delete_when)
        self._paths = (config.commit_log_dir, config.consume_queue_dir)
        self._reserved_ratio = _clamp(config.disk_max_used_space_ratio, 10, 95)
        self._forced_ratio = _clamp(config.disk_space_clean_forcibly_ratio, 30, 85)
        self._full_ratio = _clamp(config.disk_space_warning_level_ratio, 35, 90)
        self._manual_rounds = 0
        self.disk_full = False  # while true, the store takes no messages

    def delete_by_hand(self) -> None:
        """An operator asks: expired files go in the next rounds, whatever the hour."""
        self._manual_rounds = MANUAL_ROUNDS

    def expired(self, paths: Sequence[str]) -> list[str]:
        """Of the log's files, oldest first, those to delete in this round."""
        space_is_short, forced = self._look_at_disk()
        manual = self._manual_rounds > 0
        if manual:
            self._manual_rounds -= 1
        if not (space_is_short or manual or self._is_the_hour()):
            return []
        now_ms = self._clock.now_ms()
        forced = forced and self._config.clean_file_forcibly_enable
        gone: list[str] = []
        for path in paths[:-1][: self._config.delete_file_batch_max]:
            if not forced and now_ms < self._fs.modified_ms(path) + self._config.file_reserved_time * _HOUR_MS:
                break
            gone.append(path)
        return gone

    def _look_at_disk(self) -> tuple[bool, bool]:
        """(whether expired files should go now, whether any file should)."""
        ratios = [self._used_ratio(path) for path in self._paths]
        fullest = max(ratios)
        if fullest > self._full_ratio:
            self.disk_full = True
        elif fullest <= self._forced_ratio:
            self.disk_full = False
        if fullest > self._forced_ratio:
            return True, True
        # A partition that cannot be measured counts as short of space, as in Java.
        return fullest > self._reserved_ratio or min(ratios) < 0, False

    def _used_ratio(self, path: str) -> float:
        ratio = self._fs.used_ratio(path)
        return ratio if ratio < 0 else math.ceil(round(ratio * 100, 6)) / 100  # whole percents, up, as `df` shows

    def _is_the_hour(self) -> bool:
        return time.localtime(self._clock.now_ms() // 1000).tm_hour in self._hours


def parse_hours(text: str) -> frozenset[int]:
    """Hours of the day as `deleteWhen` lists them: "04" or "04;16"."""
    try:
        hours = frozenset(int(hour) for hour in text.split(";") if hour.strip())
    except ValueError:
        hours = frozenset()
    if not hours or not all(0 <= hour <= 23 for hour in hours):
        raise ConfigError(f'deleteWhen is "{text}": give hours of the day, such as 04 or 04;16')
    return hours


def _clamp(percent: int, low: int, high: int) -> float:
    return min(max(percent, low), high) / 100
