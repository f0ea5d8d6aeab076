"""What a slave does in its master's stead, while it is the first of its group and may let messages escape.

A capability adds a coroutine (`add`). It is begun when the slave becomes the first, once what the master still sent is
`settled` in its log, where it reads what is left to do. It is cancelled when the slave is the first no more, which may
be for a moment only, and begun anew after a fault: what it has done it must not forget meanwhile. It reads the log,
which is its master's, and never writes to it: what is due goes to another master of the cluster through the bridge.

Mirrors: BrokerController.changeSpecialServiceStatus, of a slave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

log = logging.getLogger("cometmq.broker")

AGAIN_S: Final = 1.0

Duty = Callable[[], Awaitable[None]]


class Duties:
    """Begun and ended together."""

    def __init__(self) -> None:
        self.settled: Callable[[], Awaitable[None]] | None = None
        self._duties: list[tuple[str, Duty]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: list[asyncio.Task[None]] = []

    def add(self, name: str, duty: Duty) -> None:
        self._duties.append((name, duty))

    @property
    def are_done(self) -> bool:
        """Whether this broker does them now."""
        return bool(self._tasks)

    def begin(self) -> None:
        if not self._tasks:
            log.warning("this slave acts for its master: what is due goes to other masters of the cluster")
            self._tasks = [asyncio.create_task(self._do(name, duty), name=name) for name, duty in self._duties]

    async def _do(self, name: str, duty: Duty) -> None:
        while True:
            try:
                if self.settled is not None:
                    await self.settled()
                await duty()
                return
            except Exception:
                log.exception("%s, in the master's stead, stumbled; it goes on in %g s", name, AGAIN_S)
                await asyncio.sleep(AGAIN_S)

    def end(self) -> None:
        """Give them up, at once."""
        if self._tasks:
            log.warning("this slave acts for its master no more")
        for task in self._tasks:
            task.cancel()
        self._ending = [task for task in [*self._ending, *self._tasks] if not task.done()]
        self._tasks = []

    async def close(self) -> None:
        self.end()
        await asyncio.gather(*self._ending, return_exceptions=True)
