"""How busy the driver and the servers were, in cores: shows what a run was limited by."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuMeter:
    """Counts from when it was made."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._began = time.perf_counter()
        self._driver = time.process_time()
        self._server = _cpu_s(pids)

    def cores_used(self) -> tuple[float, float]:
        """Cores that the driver and the servers kept busy since."""
        elapsed_s = time.perf_counter() - self._began
        driver = (time.process_time() - self._driver) / elapsed_s
        server = (_cpu_s(self._pids) - self._server) / elapsed_s
        return round(driver, 3), round(server, 3)


def _cpu_s(pids: Sequence[int]) -> float:
    total = 0
    for pid in pids:
        # The name in parentheses may hold spaces; user and system time are fields 14 and 15.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS_PER_S
