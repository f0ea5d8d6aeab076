"""Between handing messages out and committing the group's offset.

The offset of a queue moves only over pops that are safe: their checkpoint is stored, or all their messages are done.
Until then the pops of a queue wait in line, and the next one goes on behind the last (`latest`). A kill forgets the
line; the offset stands before it, so those messages are handed out again, and none is lost.

With `enablePopBufferMerge` a checkpoint with time enough stays here first, and acknowledgements meet it in memory: one
that is fully acknowledged is never written. It leaves for the revive topic, with what was acknowledged so far,
`popCkStayBufferTimeOut` before its messages are due, or after `popCkStayBufferTime`, or at a clean stop.
Bounds: `popCkMaxBufferSize` checkpoints here, `popCkOffsetMaxQueueSize` in the line of one queue; what is over goes
to the revive topic at once.

Mirrors: PopBufferMergeService.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import deque
from collections.abc import Collection
from typing import Final, Protocol

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.offsets import Offsets
from cometmq.broker.pop.checkpoint import Ack, CheckPoint, MergeKey
from cometmq.broker.pop.revive_log import ReviveLog
from cometmq.clock import Clock
from cometmq.errors import RequestRefused, StoreNotWritable

log = logging.getLogger("cometmq.broker")

LEEWAY_MS: Final = 1_500  # nothing new is merged so shortly before a checkpoint leaves
RETRY_AFTER_MS: Final = 1_000

QueueKey = tuple[str, str, int]  # topic, group, queue id


class Books(Protocol):
    """Who knows what is out: this buffer at a master, `at_slave` at a slave."""

    def check(self) -> None:
        """Raise if nobody may pop here now."""

    def is_full(self, topic: str, group: str, queue_id: int) -> bool: ...

    def latest(self, topic: str, group: str, queue_id: int) -> int: ...

    def overdue(self, topic: str, group: str, queue_id: int) -> int | None:
        """A message that is to be handed out again from its own queue."""

    def add(self, point: CheckPoint, revive_queue: int, next_offset: int) -> None: ...

    def skip(self, topic: str, group: str, queue_id: int, next_offset: int) -> None: ...

    def forget(self, topic: str, group: str, queue_id: int) -> None: ...

    def acknowledge(self, ack: Ack) -> bool: ...

    def drop(self, topic: str, group: str, queue_id: int, offsets: Collection[int]) -> None: ...

    def prolong(self, topic: str, group: str, queue_id: int, offset: int, until_ms: int) -> bool:
        """Keep a message out for longer; False if that is to be written."""

    def tick(self) -> None: ...

    def flush(self) -> None: ...


class Entry:
    """One pop in line."""

    __slots__ = ("is_safe", "next_offset", "point", "revive_queue")

    def __init__(self, next_offset: int, point: CheckPoint | None = None, revive_queue: int = -1) -> None:
        self.next_offset = next_offset
        self.point = point
        self.revive_queue = revive_queue
        self.is_safe = point is None


class PopBuffer:
    """The lines of all queues, and the checkpoints that are still here."""

    def __init__(
        self, config: BrokerConfig, revive_log: ReviveLog, offsets: Offsets, durability: Durability, clock: Clock
    ) -> None:
        self._config = config
        self._revive_log = revive_log
        self._offsets = offsets
        self._durability = durability
        self._clock = clock
        self._lines: dict[QueueKey, deque[Entry]] = {}
        self._merging: dict[MergeKey, Entry] = {}
        self._leaving: list[tuple[int, int, Entry]] = []  # heap: when, order, who leaves for the revive topic
        self._order = itertools.count()
        offsets.on_removed.append(self._removed)

    def __len__(self) -> int:
        """Checkpoints that are not written yet."""
        return len(self._leaving)

    def check(self) -> None:
        """A master always serves."""

    def is_full(self, topic: str, group: str, queue_id: int) -> bool:
        return False  # what is out stands in files

    def overdue(self, topic: str, group: str, queue_id: int) -> int | None:
        return None  # it comes back by the retry topic

    def drop(self, topic: str, group: str, queue_id: int, offsets: Collection[int]) -> None:
        """Nothing is handed out again from here."""

    def prolong(self, topic: str, group: str, queue_id: int, offset: int, until_ms: int) -> bool:
        return False

    def latest(self, topic: str, group: str, queue_id: int) -> int:
        """Where the last pop in line ended; -1 if none is in line."""
        line = self._lines.get((topic, group, queue_id))
        return -1 if line is None else line[-1].next_offset

    # --- handing out

    def add(self, point: CheckPoint, revive_queue: int, next_offset: int) -> None:
        """Messages are about to be handed out. If this raises, they must not be."""
        entry = Entry(next_offset, point, revive_queue)
        key = point.topic, point.group, point.queue_id
        if self._may_merge(point, key):
            self._merging[point.key] = entry
            stay_until_ms = min(
                point.revive_time_ms - self._config.pop_ck_stay_buffer_time_out,
                point.pop_time_ms + self._config.pop_ck_stay_buffer_time,
            )
            heapq.heappush(self._leaving, (stay_until_ms, next(self._order), entry))
        else:
            self._store(entry)
        self._lines.setdefault(key, deque()).append(entry)

    def skip(self, topic: str, group: str, queue_id: int, next_offset: int) -> None:
        """There was nothing for the group before `next_offset`."""
        line = self._lines.get((topic, group, queue_id))
        if line is None:
            self._offsets.commit(group, topic, queue_id, next_offset)
        else:
            line.append(Entry(next_offset))

    def forget(self, topic: str, group: str, queue_id: int) -> None:
        """The group's offset was reset: what is in line moves it no more."""
        self._lines.pop((topic, group, queue_id), None)

    def _removed(self, keys: Collection[str]) -> None:
        """Topic or group is deleted: a new one of that name must not go on where the old one was."""
        for topic, group, queue_id in list(self._lines):
            if f"{topic}@{group}" in keys:
                self.forget(topic, group, queue_id)

    def _may_merge(self, point: CheckPoint, key: QueueKey) -> bool:
        config = self._config
        if not config.enable_pop_buffer_merge or len(self._leaving) >= config.pop_ck_max_buffer_size:
            return False
        left_ms = point.revive_time_ms - self._clock.now_ms()
        if left_ms < config.pop_ck_stay_buffer_time_out + LEEWAY_MS or point.key in self._merging:
            return False
        line = self._lines.get(key)
        return line is None or len(line) < config.pop_ck_offset_max_queue_size

    # --- acknowledging

    def acknowledge(self, ack: Ack) -> bool:
        """Take an acknowledgement if its checkpoint is still here."""
        if not self._merging:
            return False
        entry = self._merging.get(ack.key)
        if entry is None or entry.point is None:
            return False
        point, now_ms = entry.point, self._clock.now_ms()
        if (
            point.revive_time_ms - now_ms < self._config.pop_ck_stay_buffer_time_out + LEEWAY_MS
            or now_ms - point.pop_time_ms > self._config.pop_ck_stay_buffer_time - LEEWAY_MS
        ):
            return False
        for offset in ack.offsets:
            point.acknowledge(offset)
        if point.is_done:
            del self._merging[ack.key]
            self._settle(entry)
        return True

    # --- leaving

    def tick(self) -> None:
        """Write what has stayed long enough, and what could not be written before."""
        self._leave(self._clock.now_ms())

    def flush(self) -> None:
        """Write everything that is here: the broker stops."""
        self._leave(None)

    def _leave(self, now_ms: int | None) -> None:
        leaving = self._leaving
        late: list[Entry] = []
        while leaving and (now_ms is None or leaving[0][0] <= now_ms):
            entry = heapq.heappop(leaving)[2]
            if entry.is_safe or entry.point is None:
                continue  # fully acknowledged meanwhile
            self._merging.pop(entry.point.key, None)
            try:
                self._write(entry)
            except (RequestRefused, StoreNotWritable) as refusal:
                log.warning("a checkpoint of pop is not stored yet: %s", refusal)
                late.append(entry)
        if now_ms is not None:
            for entry in late:
                heapq.heappush(leaving, (now_ms + RETRY_AFTER_MS, next(self._order), entry))

    def _store(self, entry: Entry) -> None:
        """Write now; what the timer does not take now is tried again later, as long as there is room."""
        try:
            self._write(entry)
        except RequestRefused:
            if len(self._leaving) >= self._config.pop_ck_max_buffer_size:
                raise
            retry_at_ms = self._clock.now_ms() + RETRY_AFTER_MS
            heapq.heappush(self._leaving, (retry_at_ms, next(self._order), entry))

    def _write(self, entry: Entry) -> None:
        point = entry.point
        if point is None:
            return
        placed = self._revive_log.put_checkpoint(point, entry.revive_queue)
        if point.bits:
            done = [point.start_offset + diff for index, diff in enumerate(point.diffs) if point.bits >> index & 1]
            placed = self._revive_log.put_ack(
                Ack(*point.key, done), entry.revive_queue, point.revive_time_ms, batch=len(done) > 1
            )

        def settle(fault: BaseException | None) -> None:
            if fault is None:
                self._settle(entry)

        self._durability.when_safe(placed.physical_offset + placed.size, settle)

    def _settle(self, entry: Entry) -> None:
        entry.is_safe = True
        point = entry.point
        if point is None:
            return
        key = topic, group, queue_id = point.topic, point.group, point.queue_id
        line = self._lines.get(key)
        if line is None or line[0] is not entry:
            return
        next_offset = entry.next_offset
        while line and line[0].is_safe:
            next_offset = line.popleft().next_offset
        self._offsets.commit(group, topic, queue_id, next_offset)
        if not line:
            del self._lines[key]
