"""File work that need not wait for anyone, in a thread of its own: queue and index files, tables, old segments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from cometmq.broker.saved import Saved
from cometmq.errors import StoreError
from cometmq.store.engine import Store


class Upkeep:
    """One job after the other; two never overlap, and the event loop waits for none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "cometmq-upkeep")
        self._round = asyncio.Lock()
        self.before_settling: Callable[[], Awaitable[None]] | None = None

    async def write_queues(self) -> None:
        """Write out what the queue and index files lack."""
        await self._maintain()

    async def settle(self, what: str) -> None:
        """A checkpoint of now, so that what was deleted stays so after a kill; raises if there can be none.

        What was sent before must be in the queues by then: a replay of it would make its queue anew.
        """
        if self.before_settling is not None:
            await self.before_settling()
        if not await self._maintain(thorough=True):
            why = self._store.fault or "the disk is full"
            raise StoreError(f"{what} is deleted, but a restart can bring it back, as no checkpoint was written: {why}")

    async def _maintain(self, *, thorough: bool = False) -> bool:
        async with self._round:
            job = self._store.prepare_maintenance(thorough=thorough)
            assert job is not None  # all others that the store makes begin and end within one turn
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, job.run)
            finally:
                self._store.finish_maintenance(job)
            return job.complete

    async def save(self, table: Saved) -> None:
        """Save a table if it has changed."""
        await table.persist_aside(self._thread)

    async def delete_expired(self) -> None:
        """Delete what retention lets go of."""
        if self._store.expire():
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.remove_files)

    def close(self) -> None:
        self._thread.shutdown()
