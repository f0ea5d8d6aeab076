"""Reading the broker's own topics: what it wrote for itself comes back as records.

Mirrors: EscapeBridge.getMessage, PopReviveService.getReviveMessage, TransactionalMessageBridge.getMessage.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from cometmq.broker.loading import load
from cometmq.errors import QueueDamaged
from cometmq.store.engine import Store
from cometmq.store.reader import ReadStatus
from cometmq.wire.record import Record, decode_record

SEARCH_PAUSE_S: Final = 1.0

log = logging.getLogger("cometmq.broker")


class InnerRead(NamedTuple):
    """`next_offset` is where to go on, also when nothing was found (the queue's start may have moved)."""

    status: ReadStatus
    next_offset: int
    records: list[Record]


class InnerReader:
    """Reads queues for the services of this broker; what may not be in memory is read in a thread.

    Where a queue is damaged, a read waits until upkeep has found the message in the log.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, topic: str, queue_id: int, offset: int, count: int = 32) -> InnerRead:
        """Up to `count` records of a queue from `offset` on."""
        store = self._store
        while True:
            try:
                found = store.read(topic, queue_id, offset, count)
                pieces = await load(store, found) if found.cold else store.slices(found.ranges)
                return InnerRead(found.status, found.next_offset, [decode_record(piece) for piece in pieces])
            except QueueDamaged as damaged:
                log.warning("%s", damaged)
                await asyncio.sleep(SEARCH_PAUSE_S)

    def record_at(self, physical_offset: int, size: int | None = None) -> Record | None:
        """The record that stands there; None if it is gone, or none (of this size) starts there."""
        found = self._store.record_at(physical_offset, size)
        return None if found is None else decode_record(found)
