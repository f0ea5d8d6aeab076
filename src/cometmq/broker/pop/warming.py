"""Bringing old records into memory before an expression is asked about them: a pop is decided on the loop, in one step.

A place of a queue is *warm* if asking about the records from there on cannot wait for a disk. What is not warm is read
in a thread first, as much as one pop looks at, and the pop is decided after it. Another pop may have moved the group on
meanwhile, to a place that is not warm: then this queue is left out, and counts as a rest to come back for.
Bounds: about `COUNT_MAX` records or `SIZE_MAX` bytes of each queue, whichever is reached first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Final

from cometmq.store.commit_log import Range
from cometmq.store.engine import Store
from cometmq.store.reader import RecordFilter

COUNT_MAX: Final = 64
SIZE_MAX: Final = 4 << 20

Place = tuple[str, int]  # topic, queue id
Warm = dict[Place, tuple[int, int]]  # offsets: from, before


class Warming:
    """Finds out what is cold, and reads it."""

    def __init__(self, store: Store, readers: Executor | None) -> None:
        self._store = store
        self._readers = readers
        self._running: set[asyncio.Future[object]] = set()
        self._closed = False

    def warm(
        self, starts: Iterable[tuple[str, int, int]], then: Callable[[Warm], None], fail: Callable[[Exception], None]
    ) -> None:
        """Call `then` when what follows each (topic, queue id, offset) is in memory: at once, if it is now."""
        warm: Warm = {}
        ranges: list[Range] = []
        for topic, queue_id, offset in starts:
            start, end, cold = self._ahead(topic, queue_id, offset)
            if cold:
                warm[topic, queue_id] = start, end
                ranges += cold
        if not ranges or self._closed:
            then({})
            return

        def loaded(done: asyncio.Future[object]) -> None:
            self._running.discard(done)
            if done.cancelled():
                return
            fault = done.exception()
            try:
                if fault is not None:
                    raise fault
                then(warm)
            except Exception as error:  # a callback has nobody above it
                fail(error)

        reading: asyncio.Future[object]
        reading = asyncio.get_running_loop().run_in_executor(self._readers, self._touch, ranges)
        self._running.add(reading)
        reading.add_done_callback(loaded)

    def _ahead(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, list[Range]]:
        """Where a pop would begin and end to look, and the records between, if one of them may be on disk only."""
        read = self._store.read
        found = read(topic, queue_id, offset, 1)
        if not found.ranges and found.next_offset != offset:  # messages expired
            offset = found.next_offset
            found = read(topic, queue_id, offset, 1)
        if not found.ranges or self._store.is_recent(found.ranges[0][0]):
            return offset, found.max_offset, []
        ranges: list[Range] = []
        at, size, is_cold = offset, 0, False
        while len(ranges) < COUNT_MAX and size < SIZE_MAX and (found := read(topic, queue_id, at, COUNT_MAX)).ranges:
            ranges += found.ranges
            at, size, is_cold = found.next_offset, size + found.size, is_cold or found.cold
        return offset, at, ranges if is_cold else []

    def _touch(self, ranges: list[Range]) -> None:
        for one in ranges:
            if not self._closed:
                self._store.load([one])

    def within(self, warm: Warm, place: Place, offset: int, matches: RecordFilter) -> RecordFilter | None:
        """The filter, for no more records than are in memory from `offset` on; None if the first of them is not."""
        start, end = warm.get(place, (0, 0))
        if not start <= offset < end:
            start, end, cold = self._ahead(*place, offset)
            if cold:
                return None if start == offset else matches  # else nothing is there to be asked about
        return RecordFilter(matches.wants, max(1, min(matches.scan_max, end - offset)))

    def close(self) -> None:
        """Nothing more is read; who comes now gets what is warm."""
        self._closed = True
        for reading in list(self._running):
            reading.cancel()
