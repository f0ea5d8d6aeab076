"""A bar on the terminal for work that takes longer than a second; nothing where nobody looks.

replaying the log  [############............]  48 %  1.2 GiB
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

SILENT_S: Final = 1.0
EVERY_S: Final = 0.1
WIDTH: Final = 24


class ProgressBar:
    """Call it with bytes done and bytes to do; `close` wipes it off. Any thread, one at a time."""

    def __init__(self, label: str, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._label = label
        self._out = out or sys.stderr
        self._clock = clock
        self._began = self._next = clock()
        self._next += SILENT_S
        self._shown = 0
        self._on = self._out.isatty()

    def __call__(self, done: int, total: int) -> None:
        if not self._on or (now := self._clock()) < self._next:
            return
        self._next = now + EVERY_S
        part = min(done / total, 1.0) if total > 0 else 1.0
        full = int(part * WIDTH)
        bar = "#" * full + "." * (WIDTH - full)
        self._write(f"{self._label}  [{bar}]  {part * 100:3.0f} %  {total / (1 << 30):.1f} GiB")

    def _write(self, text: str) -> None:
        self._out.write("\r" + text.ljust(self._shown))
        self._out.flush()
        self._shown = len(text)

    def close(self) -> None:
        if self._shown:
            self._write("")
            self._out.write("\r")
            self._out.flush()
            self._shown = 0
