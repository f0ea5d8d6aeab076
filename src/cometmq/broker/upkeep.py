"""File work that need not wait for anyone, in a thread of its own: queue and index files, tables, old segments."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from cometmq.broker.saved import Saved
from cometmq.store.engine import Store


class Upkeep:
    """One job after the other; two never overlap, and the event loop waits for none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "cometmq-upkeep")

    async def write_queues(self) -> None:
        """Write out what the queue and index files lack."""
        job = self._store.prepare_maintenance()
        if job is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, job.run)
        finally:
            self._store.finish_maintenance(job)

    async def save(self, table: Saved) -> None:
        """Save a table if it has changed."""
        await table.persist_aside(self._thread)

    async def delete_expired(self) -> None:
        """Delete what retention lets go of."""
        gone = self._store.expire()
        if gone:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.remove_files, gone)

    def close(self) -> None:
        self._thread.shutdown()
