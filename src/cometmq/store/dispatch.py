"""Dispatch: what is confirmed in the log becomes visible in the queues and findable in the index.

Messages appended by this process are remembered as tuples, so nothing is parsed again; after a restart
`recovery.py` walks the log and comes through `replay`. Order is the log's order.

Mirrors: DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildConsumeQueue, …BuildIndex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cometmq import compiled
from cometmq.store.append import Appender, Entry
from cometmq.store.batch_queue import BatchQueue, BatchQueues
from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import UNIT, ConsumeQueue
from cometmq.store.index import IndexService
from cometmq.store.queue_table import QueueTable

UNWRITTEN_UNITS_MAX: Final = 500_000  # 10 MB of queue tails before dispatch writes them itself


class Arrival(NamedTuple):
    """A queue that has new messages."""

    topic: str
    queue_id: int
    max_offset: int


Put = Callable[[ConsumeQueue, int, int, int, int, int], bool]


def new_units_in_python(entries: list[Entry], put: Put) -> tuple[int, dict[ConsumeQueue, None]]:
    """Units of messages that were just appended; how many there were, and the queues that grew, in order."""
    grown: dict[ConsumeQueue, None] = {}
    pack = UNIT.pack
    count = 0
    for end, queue, physical_offset, size, tags_code, queue_offset, _, _, store_time_ms, _, _ in entries:
        if queue_offset == queue.max_offset:
            queue.tail += pack(physical_offset, size, tags_code)
            queue.max_offset = queue_offset + 1
            queue.max_physical = end
            grown[queue] = None
            count += 1
        elif queue_offset >= 0 and queue.alive:
            count += put(queue, physical_offset, size, tags_code, queue_offset, store_time_ms)
            grown[queue] = None
    return count, grown


def put_units_in_python(entries: list[Entry], put: Put) -> int:
    """Units of what the queues lack of these, the next ones packed here, any others by `put`; how many there were."""
    pack = UNIT.pack
    count = 0
    for end, queue, physical_offset, size, tags_code, queue_offset, _, _, store_time_ms, _, _ in entries:
        if queue_offset == queue.max_offset and end > queue.max_physical >= 0:
            queue.tail += pack(physical_offset, size, tags_code)
            queue.max_offset = queue_offset + 1
            queue.max_physical = end
            queue.dirty = True
            count += 1
        elif queue_offset >= 0 and (end > queue.max_physical or queue.max_offset < 0):  # below 0: a queue of batches
            count += put(queue, physical_offset, size, tags_code, queue_offset, store_time_ms)
    return count


_new_units: Final = compiled.twin("new_units", new_units_in_python)
_put_units: Final = compiled.twin("put_units", put_units_in_python)


class Dispatcher:
    """Takes confirmed messages from the appender into queues and index."""

    def __init__(
        self,
        log: CommitLog,
        appender: Appender,
        table: QueueTable,
        batches: BatchQueues,
        index: IndexService | None,
    ) -> None:
        self._log = log
        self._undispatched = appender.undispatched
        self._table = table
        self._batches = batches
        self._index = index
        self.dispatched = 0  # end of the last dispatched record
        self.count = 0  # messages that came while the store was open
        self.last_physical_offset = 0
        self.last_store_time_ms = 0
        self.unwritten_units = 0

    @property
    def waiting(self) -> bool:
        """Whether something is confirmed and not dispatched."""
        return bool(self._undispatched) and self._undispatched[0][0] <= self._log.confirm_offset

    def dispatch(self, max_count: int) -> list[Arrival]:
        """Make visible what is confirmed, at most so many messages of it; returns the queues that grew."""
        entries = self._take_confirmed(max_count)
        if not entries:
            return []
        count, grown = _new_units(entries, self._put)
        if self._index is not None:
            self._index.put_messages(entries)
        self.dispatched, _, self.last_physical_offset, *_, self.last_store_time_ms, _, _ = entries[-1]
        self.unwritten_units += count
        self.count += len(entries)
        arrivals: list[Arrival] = []
        for queue in grown:
            queue.dirty = True
            if queue.alive:
                arrivals.append(Arrival(queue.topic, queue.queue_id, queue.end_offset))
        return arrivals

    def _put(
        self,
        queue: ConsumeQueue,
        physical_offset: int,
        size: int,
        tags_code: int,
        queue_offset: int,
        store_time_ms: int,
    ) -> bool:
        """Add a unit that is not simply the next of a plain queue."""
        if isinstance(queue, BatchQueue):
            return self._batches.put(queue, physical_offset, size, tags_code, queue_offset, store_time_ms)
        return self._table.put(queue, physical_offset, size, tags_code, queue_offset)

    def _take_confirmed(self, max_count: int) -> list[Entry]:
        undispatched, confirmed = self._undispatched, self._log.confirm_offset
        if undispatched and undispatched[-1][0] <= confirmed and len(undispatched) <= max_count:
            entries = list(undispatched)
            undispatched.clear()
            return entries
        entries = []
        while undispatched and undispatched[0][0] <= confirmed and len(entries) < max_count:
            entries.append(undispatched.popleft())
        return entries

    def replay(self, entries: list[Entry]) -> None:
        """Dispatch records found in the log; what the queues or the index have already stays as it is."""
        count = _put_units(entries, self._put)
        if self._index is not None:
            self._index.replay(entries)
        self.unwritten_units += count
        *_, self.last_store_time_ms, _, _ = entries[-1]
        self.last_physical_offset = entries[-1][2]
