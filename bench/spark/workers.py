"""How much memory Spark's Python workers took, which are what a task is made of on the Python side.

The kernel keeps each process's highest resident size (`VmHWM`), and forgets it where asked (`clear_refs`); a worker
does one task at a time. Of that, what is mapped from files (the store's, the libraries') can be dropped at any time;
`anonymous` is what cannot, looked at four times a second.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

LOOK_INTERVAL_S: Final = 0.25
_FORGET_PEAK: Final = "5"


class WorkerMemory:
    """Watches the workers below a process from when it is made until `peak` is asked for."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._anonymous_kib = 0
        self._ended = threading.Event()
        for pid in _workers(root):
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text(_FORGET_PEAK)
        self._watch = threading.Thread(target=self._look_on, daemon=True)
        self._watch.start()

    def _look_on(self) -> None:
        while not self._ended.wait(LOOK_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        self._anonymous_kib = max([self._anonymous_kib, *(_status_kib(pid, "RssAnon") for pid in _workers(self._root))])

    def peak(self) -> dict[str, float]:
        """The most that any one worker had."""
        self._ended.set()
        self._watch.join()
        self._look()
        resident = max([_status_kib(pid, "VmHWM") for pid in _workers(self._root)], default=0)
        return {"worker_peak_mb": _mb(resident), "worker_anonymous_mb": _mb(self._anonymous_kib)}


def _mb(kib: int) -> float:
    return round(kib * 1024 / 1e6, 1)


def _workers(root: int) -> list[int]:
    """Processes forked by Spark's Python daemon below `root`."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        below = children.get(pid, [])
        if b"pyspark.daemon" in _command_line(pid):
            found += below
        else:
            waiting += below
    return found


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _status_kib(pid: int, field: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return 0
