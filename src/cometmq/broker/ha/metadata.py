"""A slave asks its master for the tables beside the log, again and again.

Before it follows, as the topics say what kinds of queues their messages go to, then every `EVERY_S`, and the timer's
progress every `OFTEN_S`; at once when the log brings a topic that is not known here. A table that cannot be had, or is
not what it should be, is left as it is and asked for again; the others are not held up.

What says how far something in the log is (`of_the_log`) waits until our log is as long as the master's was then. Else
a slave that lags would take for done what the master did since, and nobody would do it when the master is gone.

Mirrors: SlaveSynchronize, which asks once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from cometmq.broker.replicated import Replicated
from cometmq.errors import CometError
from cometmq.net.pool import Pool
from cometmq.wire.bodies.ha_status import decode_peer
from cometmq.wire.requests.ha import GetBrokerHaStatus

log = logging.getLogger("cometmq.ha")

EVERY_S: Final = 10.0
OFTEN_S: Final = 3.0
ASK_MS: Final = 10_000


class Early(NamedTuple):
    """An answer that waits until our log ends at `log_end`."""

    body: bytes
    log_end: int


class Metadata:
    """Copies tables until closed. The first one is that of the topics."""

    def __init__(
        self,
        tables: Sequence[Replicated],
        pool: Pool,
        master: Callable[[], str | None],
        log_end: Callable[[], int],
    ) -> None:
        self._tables = tables
        self._pool = pool
        self._master = master
        self._log_end = log_end
        self._early: dict[str, Early] = {}  # by table
        self._asked_at = -EVERY_S
        self._wanted = asyncio.Event()
        self.on_topics: Callable[[], None] = lambda: None  # after `ask_soon`: the topics are there, or cannot be had
        self._complaints: dict[str, str] = {}  # by table
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="copying the master's tables")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def ask_soon(self) -> None:
        """Something is in the log of which the tables know nothing."""
        self._wanted.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OFTEN_S):
                    await self._wanted.wait()
            is_wanted = self._wanted.is_set()
            self._wanted.clear()
            if is_wanted and (address := self._master()) is not None:
                await self._copy(self._tables[0], address)
            if is_wanted:
                self.on_topics()
            await self.ask(everything=is_wanted or loop.time() - self._asked_at >= EVERY_S)

    async def ask(self, *, everything: bool = True) -> None:
        """One round."""
        address = self._master()
        if address is None:
            return
        if everything:
            self._asked_at = asyncio.get_running_loop().time()
        for table in self._tables:
            if everything or table.often:
                await self._copy(table, address)

    async def _copy(self, table: Replicated, address: str) -> None:
        if table.name in self._early:
            return  # a younger one would have to wait for longer
        with self._complaining(table):
            channel = await self._pool.channel(address)
            body = bytes((await channel.call(table.request, timeout_ms=ASK_MS)).body)
            end = 0
            if table.of_the_log:
                end = decode_peer((await channel.call(GetBrokerHaStatus(), timeout_ms=ASK_MS)).body).end
            self._early[table.name] = Early(body, end)
        self.log_has_grown()

    def log_has_grown(self) -> None:
        """Take what does not come too early, or not any more."""
        if not self._early:
            return
        for table in self._tables:
            early = self._early.get(table.name)
            if early is not None and early.log_end <= self._log_end():
                del self._early[table.name]
                with self._complaining(table):
                    table.take(early.body)
                    self._complaints.pop(table.name, None)

    @contextlib.contextmanager
    def _complaining(self, table: Replicated) -> Iterator[None]:
        """Say once why a table is not copied."""
        try:
            yield
        except (CometError, AttributeError, TypeError, ValueError, OverflowError) as fault:
            if self._complaints.get(table.name) != str(fault):
                log.warning("the master's %s were not copied: %s", table.name, fault)
            self._complaints[table.name] = str(fault)
