"""Reading old messages: in a thread, or at once where nobody is served yet.

If their queue turns out to be damaged, it is mended and they are read again.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

from cometmq.errors import QueueDamaged, UnitsDoubted
from cometmq.store.engine import Store
from cometmq.store.reader import ReadResult

SEARCHES_MAX: Final = 100


async def load(store: Store, found: ReadResult, readers: Executor | None = None) -> list[bytes]:
    """One piece for each message found; those of deleted segments are left out."""
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(readers, store.load_found, found)
    except UnitsDoubted:
        return await loop.run_in_executor(readers, store.load_found, store.mended(found))


def read_patiently(
    store: Store, topic: str, queue_id: int, offset: int, max_count: int
) -> tuple[ReadResult, list[bytes]]:
    """What is found, and its bytes, however long the log must be searched for it; for a broker that is starting."""
    for _ in range(SEARCHES_MAX):
        with suppress(QueueDamaged):
            return _read(store, topic, queue_id, offset, max_count)
        store.maintain()  # it searches
    return _read(store, topic, queue_id, offset, max_count)


def _read(store: Store, topic: str, queue_id: int, offset: int, max_count: int) -> tuple[ReadResult, list[bytes]]:
    found = store.read(topic, queue_id, offset, max_count)
    with suppress(UnitsDoubted):
        return found, store.load_found(found)
    found = store.mended(found)
    return found, store.load_found(found)
