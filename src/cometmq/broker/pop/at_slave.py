"""Pop at a slave that acts for its master: as `buffer`, but nothing is written, for a slave's log is its master's.

Which messages are out is kept in memory, and only there. The group's offset moves to the lowest one that is not
acknowledged, never beyond. Whatever is not acknowledged in its invisible time is handed out again from its own queue,
one at a time; its number of consumptions stays as it is. An acknowledgement counts whichever pop it is of.

So nothing is lost when the slave ends to act, by a kill or because its master is there: what was out then, and what
was acknowledged above a message that was not, is handed out again, there or here. Pops of the dead master wait for it:
their checkpoints are in its log, and what is acknowledged of them here is not heard there.

Bounds: so many messages of a queue are out for a group at most (`popInflightMessageThreshold`, where that is enabled,
else `HELD_MAX`); then nothing new is handed out.

Mirrors: nothing; upstream's acting slave writes checkpoints into the log of another master.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.offsets import Offsets
from cometmq.broker.pop.buffer import QueueKey
from cometmq.broker.pop.checkpoint import Ack, CheckPoint
from cometmq.clock import Clock
from cometmq.errors import StoreNotWritable

HELD_MAX: Final = 10_000
LOOK_EVERY_S: Final = 0.2
STALE_MAX: Final = 1_000  # entries of a heap that mean nothing any more, beside as many as mean something


class _Queue:
    """Of one group and queue: the messages that are out, until when, and where it goes on."""

    __slots__ = ("floor", "held", "line", "next", "times")

    def __init__(self) -> None:
        self.next = self.floor = -1
        self.held: dict[int, int] = {}  # offset → when it is visible again
        self.line: deque[int] = deque()  # offsets in order; those done leave when they come to the front
        self.times: list[tuple[int, int]] = []  # heap of (when, offset); what differs from `held` is stale

    def hold(self, offset: int, until_ms: int) -> None:
        if offset not in self.held:
            self.line.append(offset)
        self.held[offset] = until_ms
        if len(self.times) > 2 * len(self.held) + STALE_MAX:
            self.times = [(when, at) for at, when in self.held.items()]
            heapq.heapify(self.times)
        else:
            heapq.heappush(self.times, (until_ms, offset))

    def overdue(self, now_ms: int) -> int | None:
        times, held = self.times, self.held
        while times and held.get(times[0][1]) != times[0][0]:
            heapq.heappop(times)
        return times[0][1] if times and times[0][0] <= now_ms else None

    def lowest_open(self) -> int:
        while self.line and self.line[0] not in self.held:
            self.line.popleft()
        return self.line[0] if self.line else self.next


class PopsAtSlave:
    """What is out, while `serve` runs; `on_visible` hears of queues in which something is visible again."""

    def __init__(self, config: BrokerConfig, offsets: Offsets, clock: Clock) -> None:
        is_limited = config.enable_pop_message_threshold
        self._held_max = config.pop_inflight_message_threshold if is_limited else HELD_MAX
        self._offsets = offsets
        self._clock = clock
        self._queues: dict[QueueKey, _Queue] = {}
        self._serves = False
        self.on_visible: Callable[[str, str, int], None] = lambda topic, group, queue_id: None
        offsets.on_removed.append(self._removed)

    async def serve(self) -> None:
        """A duty of an acting slave: until it is cancelled, groups may pop."""
        self._serves = True
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                now_ms = self._clock.now_ms()
                for key, queue in list(self._queues.items()):
                    if queue.overdue(now_ms) is not None:
                        self.on_visible(*key)
        finally:
            self._serves = False
            self._queues.clear()

    # --- as the buffer

    def check(self) -> None:
        if not self._serves:
            raise StoreNotWritable("this broker is a slave and serves pop only while it acts for its master")

    def is_full(self, topic: str, group: str, queue_id: int) -> bool:
        queue = self._queues.get((topic, group, queue_id))
        return queue is not None and len(queue.held) >= self._held_max

    def latest(self, topic: str, group: str, queue_id: int) -> int:
        queue = self._queues.get((topic, group, queue_id))
        return -1 if queue is None else queue.next

    def overdue(self, topic: str, group: str, queue_id: int) -> int | None:
        queue = self._queues.get((topic, group, queue_id))
        return None if queue is None else queue.overdue(self._clock.now_ms())

    def add(self, point: CheckPoint, revive_queue: int, next_offset: int) -> None:
        key = point.topic, point.group, point.queue_id
        queue = self._queues.setdefault(key, _Queue())
        queue.next = max(queue.next, next_offset)
        for offset in point.open_offsets():
            queue.hold(offset, point.revive_time_ms)
        self._commit(key, queue)

    def skip(self, topic: str, group: str, queue_id: int, next_offset: int) -> None:
        key = topic, group, queue_id
        queue = self._queues.setdefault(key, _Queue())
        queue.next = max(queue.next, next_offset)
        self._commit(key, queue)

    def forget(self, topic: str, group: str, queue_id: int) -> None:
        self._queues.pop((topic, group, queue_id), None)

    def acknowledge(self, ack: Ack) -> bool:
        """Always taken: what is not out here needs no note of it."""
        self.check()
        self.drop(ack.topic, ack.group, ack.queue_id, ack.offsets)
        return True

    def drop(self, topic: str, group: str, queue_id: int, offsets: Collection[int]) -> None:
        """Have these done."""
        queue = self._queues.get((topic, group, queue_id))
        if queue is not None:
            for offset in offsets:
                queue.held.pop(offset, None)
            self._commit((topic, group, queue_id), queue)

    def prolong(self, topic: str, group: str, queue_id: int, offset: int, until_ms: int) -> bool:
        self.check()
        queue = self._queues.get((topic, group, queue_id))
        if queue is not None and offset in queue.held:
            queue.hold(offset, until_ms)
        return True

    def tick(self) -> None:
        pass

    def flush(self) -> None:
        pass

    def _commit(self, key: QueueKey, queue: _Queue) -> None:
        floor = queue.lowest_open()
        if floor != queue.floor:
            queue.floor = floor
            topic, group, queue_id = key
            self._offsets.commit(group, topic, queue_id, floor)

    def _removed(self, keys: Collection[str]) -> None:
        for topic, group, queue_id in list(self._queues):
            if f"{topic}@{group}" in keys:
                self.forget(topic, group, queue_id)
