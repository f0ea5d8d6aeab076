"""How many messages of each queue a group holds, handed out and neither acknowledged nor brought back.

With `enablePopMessageThreshold` a group that holds more than `popInflightMessageThreshold` messages of a queue gets no
more of it until some are done; who waits for them is told then. Without it nothing is counted. Pops in order are not
counted either: their lock bounds them.

Counted as upstream counts: in memory, from the start of the broker on, so receipts from before it count for nothing;
an acknowledgement counts each time it is sent, so the number may be too small, never too large for long. A message
with more time stays one.

Mirrors: PopInflightMessageCounter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from cometmq.broker.config import BrokerConfig
from cometmq.broker.offsets import Offsets
from cometmq.clock import Clock

Freed = Callable[[str, str, int], None]  # topic, group, queue id


class Inflight:
    """Counts by topic, group and queue; `on_freed` hears of queues that may be popped again."""

    def __init__(self, config: BrokerConfig, offsets: Offsets, clock: Clock, *, counts: bool = True) -> None:
        self._is_on = counts and config.enable_pop_message_threshold
        self._count_max = config.pop_inflight_message_threshold
        self._started_ms = clock.now_ms()
        self._counts: dict[tuple[str, str, int], int] = {}
        self.on_freed: Freed = lambda topic, group, queue_id: None
        if self._is_on:
            offsets.on_reset.append(self._reset)
            offsets.on_removed.append(self._removed)

    def is_full(self, topic: str, group: str, queue_id: int) -> bool:
        """Whether the group must finish some of the queue first."""
        return self._is_on and self._counts.get((topic, group, queue_id), 0) > self._count_max

    def handed_out(self, topic: str, group: str, queue_id: int, count: int) -> None:
        if self._is_on:
            key = topic, group, queue_id
            self._counts[key] = self._counts.get(key, 0) + count

    def done(self, topic: str, group: str, queue_id: int, pop_time_ms: int, count: int) -> None:
        """Some of a pop were acknowledged, or came back."""
        if not self._is_on or pop_time_ms < self._started_ms:
            return
        key = topic, group, queue_id
        before = self._counts.get(key, 0)
        left = before - count
        if left > 0:
            self._counts[key] = left
        else:
            self._counts.pop(key, None)
        if before > self._count_max >= left:
            self.on_freed(topic, group, queue_id)

    def _reset(self, group: str, topic: str, queue_id: int) -> None:
        self._counts.pop((topic, group, queue_id), None)

    def _removed(self, keys: Collection[str]) -> None:
        for topic, group, queue_id in list(self._counts):
            if f"{topic}@{group}" in keys:
                self._reset(group, topic, queue_id)
