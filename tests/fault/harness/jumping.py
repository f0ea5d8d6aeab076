"""Server processes whose wall clock is put forward or back when told so; what they measure does not jump.

    wall = WallClock(folder / "ahead")
    with JumpingBroker(folder, wall, flush="SYNC_FLUSH") as broker:
        wall.ahead_ms += HOUR_MS     from now on it is an hour later there, also after a kill and a start

The processes are the real ones; only their clock is wrapped. How far it is ahead they read in memory that they share.
"""

from __future__ import annotations

import mmap
import random
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from tests.original import Child, CometBroker, CometNamesrv

from cometmq.clock import SystemClock

from .warm import Forked, serve

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
JUMPS_MS: Final = (HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS, -30 * DAY_MS)
AHEAD_MS_MAX: Final = 2 * DAY_MS  # files are kept for three days: none is too old, wherever the clock stands
_AHEAD: Final = struct.Struct("<q")


class WallClock(SystemClock):
    """The clock of the servers that are given it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_AHEAD.size))
        self.path = path
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _AHEAD.size)
        self.latest_ms = 0
        """The latest time that it ever showed at a jump."""

    @property
    def ahead_ms(self) -> int:
        """By how much it is ahead of the machine's."""
        return int(_AHEAD.unpack_from(self._shared)[0])

    @ahead_ms.setter
    def ahead_ms(self, ahead_ms: int) -> None:
        self.latest_ms = max(self.latest_ms, self.now_ms())
        _AHEAD.pack_into(self._shared, 0, ahead_ms)

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def jump(self, chance: random.Random) -> None:
        """By an hour or a day, forwards or back, or a month back and, with the next jump, forwards again."""
        step_ms = chance.choice(JUMPS_MS)
        if self.ahead_ms < -AHEAD_MS_MAX:
            step_ms = -self.ahead_ms
        elif self.ahead_ms + step_ms > AHEAD_MS_MAX:
            step_ms = -step_ms
        self.ahead_ms += step_ms


class JumpingBroker(CometBroker):
    """A broker with such a clock."""

    def __init__(self, directory: Path, wall: WallClock, *, flush: str, conf: Mapping[str, object]) -> None:
        super().__init__(directory, [], flush=flush, conf=conf)
        self._wall = wall

    def spawn(self, log: IO[bytes]) -> Child:
        return _spawn(self._wall, self.log, self.dir, self.command())


class JumpingNamesrv(CometNamesrv):
    """A NameServer with such a clock."""

    def __init__(self, directory: Path, wall: WallClock, *, conf: Mapping[str, object]) -> None:
        super().__init__(directory, conf=conf)
        self._wall = wall

    def spawn(self, log: IO[bytes]) -> Child:
        return _spawn(self._wall, self.log, self.dir, self.command())


def _spawn(wall: WallClock, log: Path, folder: Path, command: list[str]) -> Child:
    return Forked(str(log), _serve, str(wall.path), str(folder), command[4:])


def _serve(path: str, folder: str, arguments: list[str]) -> None:
    wall, machine = WallClock(Path(path)), SystemClock.now_ms
    SystemClock.now_ms = lambda self: machine(self) + wall.ahead_ms  # type: ignore[method-assign]
    serve(folder, arguments)
