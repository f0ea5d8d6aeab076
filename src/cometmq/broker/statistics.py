"""How much is sent and read, and how long a write to the log takes: counted as it happens, told to who asks.

Counting costs an addition for each read and each turn of the loop, nothing for a message. Rates come from samples,
one for each second of the last ten minutes. Write times are those of the minute before, as in the original.

Mirrors: StoreStatsService, BrokerStats.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from typing import Final, NamedTuple

SAMPLE_EVERY_S: Final = 1.0
WINDOWS_S: Final = (10, 60, 600)
_TURNOVER_S: Final = 60

_CLASSES_MS: Final = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
_CLASS_NAMES: Final = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]", "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip
_MS_MAX: Final = _CLASSES_MS[-1]


class WriteTimes:
    """How long the writes of the minute took, and of the minute before, in whole milliseconds."""

    def __init__(self) -> None:
        self.longest_ms = 0
        self._counts: Counter[int] = Counter()
        self._before: Counter[int] | None = None

    def add(self, seconds: float) -> None:
        ms = int(seconds * 1000)
        self.longest_ms = max(self.longest_ms, ms)
        self._counts[min(ms, _MS_MAX)] += 1

    def turn_over(self) -> None:
        """A minute is over."""
        self._before, self._counts = self._counts, Counter()

    def percentile_ms(self, share: float) -> int:
        left = (self._before.total() if self._before else 0) * share
        for ms, count in sorted((self._before or {}).items()):
            left -= count
            if left <= 0:
                return ms
        return 0

    def classes(self) -> str | None:
        """How many there were of each class; None before the first minute is over."""
        if self._before is None:
            return None
        counts = [0] * len(_CLASS_NAMES)
        for ms, count in self._before.items():
            counts[bisect_right(_CLASSES_MS, ms) if ms else 0] += count
        return "".join(f"{name}:{count} " for name, count in zip(_CLASS_NAMES, counts, strict=True))


class Reads:
    """What consumers were given."""

    def __init__(self) -> None:
        self.found = 0
        self.missed = 0
        self.messages = 0

    def note(self, count: int) -> None:
        """A read that found so many messages."""
        if count:
            self.found += 1
            self.messages += count
        else:
            self.missed += 1


class Sample(NamedTuple):
    """All counts at one moment."""

    at_s: float
    put: int
    found: int
    missed: int
    messages: int


class Rates:
    """Counts of the last ten minutes, and what they come to in a second."""

    def __init__(self, write_times: WriteTimes) -> None:
        self._samples: deque[Sample] = deque(maxlen=max(WINDOWS_S) + 1)
        self._write_times = write_times
        self._taken = 0

    def take(self, sample: Sample) -> None:
        self._samples.append(sample)
        self._taken += 1
        if self._taken % _TURNOVER_S == 0:
            self._write_times.turn_over()

    def per_second(self, *names: str) -> list[float | None]:
        """The sum of these counts by window; None where the broker is not up so long."""
        return [self._per_second(window_s, names) for window_s in WINDOWS_S]

    def _per_second(self, window_s: int, names: tuple[str, ...]) -> float | None:
        if len(self._samples) <= window_s:
            return None
        last, before = self._samples[-1], self._samples[-1 - window_s]
        grown: int = sum(getattr(last, name) - getattr(before, name) for name in names)
        return grown / (last.at_s - before.at_s)
