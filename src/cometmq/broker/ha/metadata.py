"""A slave asks its master for the tables beside the log, again and again.

Before it follows, as the topics say what kinds of queues their messages go to, then every `EVERY_S`, and the timer's
progress every `OFTEN_S`; at once when the log brings a topic that is not known here. Only a master whose log is ours is
asked (`Source`): of another, no table is taken. A table that is not what it should be, or is refused, is left as it is
and asked for again; the others are not held up.

What says how far something in the log is (`of_the_log`) waits until our log is as long as the master's was then. Else
a slave that lags would take for done what the master did since, and nobody would do it when the master is gone.

Mirrors: SlaveSynchronize, which asks once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from cometmq.broker.replicated import Replicated
from cometmq.errors import CometError, PeerUnreachable
from cometmq.net.pool import Pool
from cometmq.wire.bodies.ha_status import decode_peer
from cometmq.wire.requests.ha import GetBrokerHaStatus

log = logging.getLogger("cometmq.ha")

EVERY_S: Final = 10.0
OFTEN_S: Final = 3.0
ASK_MS: Final = 10_000


class Source(Protocol):
    """Where the master is whose log is followed here (`slave`)."""

    source: str | None

    async def settled_source(self) -> str | None: ...


class Early(NamedTuple):
    """What the master at `address` answered; it waits until our log ends at `log_end`."""

    address: str
    body: bytes
    log_end: int


class Metadata:
    """Copies tables until closed. The first one is that of the topics."""

    def __init__(self, tables: Sequence[Replicated], pool: Pool, master: Source, log_end: Callable[[], int]) -> None:
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
            if is_wanted and (address := await self._master.settled_source()) is not None:
                await self._copy(self._tables[0], address)
            if is_wanted:
                self.on_topics()
            await self.ask(everything=is_wanted or loop.time() - self._asked_at >= EVERY_S)

    async def ask(self, *, everything: bool = True) -> None:
        """One round."""
        address = self._master.source
        if address is None:
            return
        if everything:
            self._asked_at = asyncio.get_running_loop().time()
        for table in self._tables:
            if (everything or table.often) and not await self._copy(table, address):
                return

    async def _copy(self, table: Replicated, address: str) -> bool:
        """Whether the master is still there."""
        early = self._early.get(table.name)
        if early is not None and early.address == address:
            return True  # a younger one would have to wait for longer
        try:
            with self._complaining(table):
                channel = await self._pool.channel(address)
                body = bytes((await channel.call(table.request, timeout_ms=ASK_MS)).body)
                end = 0
                if table.of_the_log:
                    end = decode_peer((await channel.call(GetBrokerHaStatus(), timeout_ms=ASK_MS)).body).end
                if self._master.source != address:
                    return False
                self._early[table.name] = Early(address, body, end)
        except PeerUnreachable as gone:
            log.info("cannot ask the master for its %s: %s", table.name, gone)
            return False
        self.log_has_grown()
        return True

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
        except PeerUnreachable:
            raise
        except (CometError, AttributeError, TypeError, ValueError, OverflowError) as fault:
            if self._complaints.get(table.name) != str(fault):
                log.warning("cannot copy the master's %s: %s", table.name, fault)
            self._complaints[table.name] = str(fault)
