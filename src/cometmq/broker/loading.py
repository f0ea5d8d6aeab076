"""Reading old messages in a thread; if their queue turns out to be damaged, it is mended and they are read again."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from cometmq.errors import UnitsDoubted
from cometmq.store.engine import Store
from cometmq.store.reader import ReadResult


async def load(store: Store, found: ReadResult, readers: Executor | None = None) -> list[bytes]:
    """One piece for each message found; those of deleted segments are left out."""
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(readers, store.load_found, found)
    except UnitsDoubted:
        return await loop.run_in_executor(readers, store.load_found, store.mended(found))
