"""Master or slave, and who does a master's work on the side.

A master takes writes and works: it delivers delayed and timed messages, asks about open transactions, brings popped
messages back. A slave does none of that; it follows a master (`broker/ha`). It may be told to do the side work for a
while, where it acts for a master that is gone.

A capability gives its side work to `Role.add` as a pair: `start` makes the service from what is in the store at that
moment and sets it going, `stop` ends it. Both are called once in turn, `stop` also at the end of a broker that works.

Mirrors: BrokerRole, BrokerController.changeSpecialServiceStatus.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
SLAVE: Final = "SLAVE"
ROLES: Final = (ASYNC_MASTER, SYNC_MASTER, SLAVE)

Start = Callable[[], None]
Stop = Callable[[], Awaitable[None]]


class Role:
    """What this broker is; `working` says whether it does the side work now."""

    def __init__(self, name: str = ASYNC_MASTER) -> None:
        self.name = name
        self.is_slave = name == SLAVE
        self.working = not self.is_slave
        self._work: list[tuple[Start, Stop]] = []

    def add(self, start: Start, stop: Stop) -> None:
        """Side work: begun now if this broker works, else when it is told to."""
        self._work.append((start, stop))
        if self.working:
            start()

    def job(self, run: Callable[[], Awaitable[object] | object]) -> Callable[[], Awaitable[object] | object]:
        """A job of the housekeeping that is only done while this broker works."""
        return lambda: run() if self.working else None

    async def work(self, working: bool) -> None:
        """Do the side work, or leave it to another."""
        if working == self.working:
            return
        self.working = working
        if working:
            for start, _ in self._work:
                start()
        else:
            await self.close()

    async def close(self) -> None:
        """End what runs, the last begun first."""
        for _, stop in reversed(self._work):
            await stop()
