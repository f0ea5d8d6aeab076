"""Asking an expression about records that may not be in memory: in a thread, as many at a time as one answer carries.

Mirrors: DefaultMessageStore.getMessage where MessageFilter.isMatchedByCommitLog decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from cometmq.store.engine import Store
from cometmq.store.reader import Range, ReadResult, ReadStatus, RecordFilter

SEARCHED_COUNT_MAX: Final = 800  # as many units as maxFilterMessageSize lets one pull of the original look at

OnFound = Callable[[ReadResult, "list[bytes] | None"], None]


class ColdSearch:
    """Runs searches until closed."""

    def __init__(self, store: Store, readers: Executor) -> None:
        self._store = store
        self._readers = readers
        self._running: set[asyncio.Task[None]] = set()

    def is_needed(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether what stands there may not be in memory."""
        return self._store.read(topic, queue_id, offset, 1).cold

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
    ) -> tuple[ReadResult, list[bytes] | None]:
        read, offset = self._store.read, start
        while True:
            found = read(topic, queue_id, offset, count)
            if not found.cold:
                found = read(topic, queue_id, offset, count, None, matches)
                if offset > start and not found.ranges:  # the end: who asked goes on from here, and does not wait there
                    found = found._replace(status=ReadStatus.NO_MATCHED_MESSAGE)
                return found, None
            run = asyncio.get_running_loop().run_in_executor
            loaded = await run(self._readers, self._load_wanted, found.ranges, matches)
            offset = found.next_offset
            ranges, pieces = [one for one, _ in loaded], [piece for _, piece in loaded]
            if ranges or offset - start >= min(SEARCHED_COUNT_MAX, matches.scan_max):
                status = ReadStatus.FOUND if ranges else ReadStatus.NO_MATCHED_MESSAGE
                return found._replace(status=status, ranges=ranges, size=sum(map(len, pieces))), pieces

    def _load_wanted(self, ranges: list[Range], matches: RecordFilter) -> list[tuple[Range, bytes]]:
        loaded = ((one, piece) for one in ranges for piece in self._store.load([one]))
        return [(one, piece) for one, piece in loaded if matches.wants(piece)]

    def close(self) -> None:
        for task in self._running:
            task.cancel()
