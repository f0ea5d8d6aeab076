"""Dispatch: what is confirmed in the log becomes visible in the queues and findable in the index.

Messages appended by this process are remembered as tuples, so nothing is parsed again; after a restart
`recovery.py` walks the log and comes through `replay`. Order is the log's order.

Mirrors: DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildConsumeQueue, …BuildIndex.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cometmq.store.append import Appender
from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import UNIT, ConsumeQueue
from cometmq.store.index import IndexService, index_keys
from cometmq.store.queue_table import QueueTable

UNWRITTEN_UNITS_MAX: Final = 500_000  # 10 MB of queue tails before dispatch writes them itself

_ROLLBACK: Final = 0xC


class Arrival(NamedTuple):
    """A queue that has new messages."""

    topic: str
    queue_id: int
    max_offset: int


class Dispatcher:
    """Takes confirmed messages from the appender into queues and index."""

    def __init__(self, log: CommitLog, appender: Appender, table: QueueTable, index: IndexService | None) -> None:
        self._log = log
        self._undispatched = appender.undispatched
        self._table = table
        self._index = index
        self.dispatched = 0  # end of the last dispatched record
        self.last_physical_offset = 0
        self.last_store_time_ms = 0
        self.unwritten_units = 0

    def dispatch(self) -> list[Arrival]:
        """Make visible all that is confirmed; returns the queues that grew."""
        undispatched = self._undispatched
        confirmed = self._log.confirm_offset
        if not undispatched or undispatched[0][0] > confirmed:
            return []
        grown: dict[ConsumeQueue, None] = {}
        pack = UNIT.pack
        pop = undispatched.popleft
        index = self._index
        count = 0
        physical_offset = end = store_time_ms = 0
        while undispatched and undispatched[0][0] <= confirmed:
            entry = pop()
            (
                end,
                queue,
                physical_offset,
                size,
                tags_code,
                queue_offset,
                keys,
                uniq_key,
                store_time_ms,
                sys_flag,
                tags,
            ) = entry
            if queue_offset == queue.max_offset:
                queue.tail += pack(physical_offset, size, tags_code)
                queue.max_offset = queue_offset + 1
                queue.max_physical = end
                grown[queue] = None
                count += 1
            elif queue_offset >= 0 and queue.alive:
                self._table.put(queue, physical_offset, size, tags_code, queue_offset)
                grown[queue] = None
            if index is not None and sys_flag & _ROLLBACK != _ROLLBACK:
                index.put(queue.topic, index_keys(uniq_key, keys, tags), physical_offset, store_time_ms)
        self.dispatched = end
        self.last_physical_offset = physical_offset
        self.last_store_time_ms = store_time_ms
        self.unwritten_units += count
        arrivals: list[Arrival] = []
        for queue in grown:
            queue.dirty = True
            if queue.alive:
                arrivals.append(Arrival(queue.topic, queue.queue_id, queue.max_offset))
        return arrivals

    def replay(
        self,
        queue: ConsumeQueue,
        physical_offset: int,
        size: int,
        tags_code: int,
        queue_offset: int,
        words: list[str],
        store_time_ms: int,
    ) -> None:
        """Dispatch a record found in the log; what the queue or the index has already stays as it is."""
        if queue_offset >= 0 and self._table.put(queue, physical_offset, size, tags_code, queue_offset):
            self.unwritten_units += 1
        if self._index is not None:
            self._index.put(queue.topic, words, physical_offset, store_time_ms)
        self.last_physical_offset = physical_offset
        self.last_store_time_ms = store_time_ms
