"""Keeping the store's side files up with its log: queue and index files are written and synced in a thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from cometmq.store.engine import Store


class StoreUpkeep:
    """One round after the other; two never overlap."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "cometmq-upkeep")

    async def run(self) -> None:
        """Write out what the queue and index files lack."""
        job = self._store.prepare_maintenance()
        if job is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, job.run)
        finally:
            self._store.finish_maintenance(job)

    def close(self) -> None:
        self._thread.shutdown()
