"""Asking an expression about old records, as many at a time as one answer carries: in a thread, if one is on disk only.

Mirrors: DefaultMessageStore.getMessage where MessageFilter.isMatchedByCommitLog decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from struct import Struct
from typing import Final

from cometmq.errors import UnitsDoubted
from cometmq.store.engine import Store
from cometmq.store.reader import ReadResult, ReadStatus, RecordFilter
from cometmq.wire.command import Body
from cometmq.wire.record import PHYSICAL_OFFSET_AT

SEARCHED_COUNT_MAX: Final = 800  # as many units as maxFilterMessageSize lets one pull of the original look at

OnFound = Callable[[ReadResult, "list[Body] | None"], None]

_PHYSICAL_OFFSET: Final = Struct(">q")


class ColdSearch:
    """Runs searches until closed."""

    def __init__(self, store: Store, readers: Executor) -> None:
        self._store = store
        self._readers = readers
        self._running: set[asyncio.Task[None]] = set()

    def is_needed(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether what stands there, or soon behind it, may not be in memory."""
        first = self._store.read(topic, queue_id, offset, 1).ranges
        return bool(first) and not self._store.is_recent(first[0][0])

    def start(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count: int,
        matches: RecordFilter,
        on_found: OnFound,
        on_error: Callable[[Exception], None],
    ) -> None:
        """Search from `offset` on, and tell what was found, with its bytes where they were read on the way."""

        async def run() -> None:
            try:
                on_found(*await self._search(topic, queue_id, offset, count, matches))
            except Exception as error:  # a task has nobody above it
                on_error(error)

        task = asyncio.get_running_loop().create_task(run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _search(
        self, topic: str, queue_id: int, start: int, count: int, matches: RecordFilter
    ) -> tuple[ReadResult, list[Body] | None]:
        store, offset = self._store, start
        while True:
            found = store.read(topic, queue_id, offset, min(count, matches.scan_max))
            if not found.ranges or store.is_recent(found.ranges[0][0]):
                found = store.read(topic, queue_id, offset, count, None, matches)
                if offset > start and not found.ranges:  # the end: who asked goes on from here, and does not wait there
                    found = found._replace(status=ReadStatus.NO_MATCHED_MESSAGE)
                return found, None
            if found.cold:
                loop = asyncio.get_running_loop()
                try:
                    pieces = await loop.run_in_executor(self._readers, self._load, found, matches)
                except UnitsDoubted:
                    pieces = await loop.run_in_executor(self._readers, self._load, store.mended(found), matches)
            else:
                pieces = _wanted(store.slices(found.ranges), matches)
            offset = found.next_offset
            ranges = [(_PHYSICAL_OFFSET.unpack_from(piece, PHYSICAL_OFFSET_AT)[0], len(piece)) for piece in pieces]
            if ranges or offset - start >= min(SEARCHED_COUNT_MAX, matches.scan_max):
                status = ReadStatus.FOUND if ranges else ReadStatus.NO_MATCHED_MESSAGE
                return found._replace(status=status, ranges=ranges, size=sum(map(len, pieces))), pieces
            await asyncio.sleep(0)  # others have their turn

    def _load(self, found: ReadResult, matches: RecordFilter) -> list[Body]:
        return _wanted(self._store.load_found(found), matches)

    def close(self) -> None:
        for task in self._running:
            task.cancel()


def _wanted(pieces: Sequence[Body], matches: RecordFilter) -> list[Body]:
    return [piece for piece in pieces if matches.wants(piece)]
