"""Time as a parameter: whoever needs the time is given a `Clock`, so that a test can own it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored or shown, monotonic time for what is measured."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as Java's `System.currentTimeMillis`."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never run backwards."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
