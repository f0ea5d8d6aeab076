"""Which queue a message goes to: in turn, to who answers fastest, or by its key; away from brokers that failed.

A broker that failed is left out for a second, twice as long each time it fails again after that, at most
`AVOID_S_MAX`; its first success ends that. If all failed, all are tried. A key's queue follows from Java's hash of it,
so that Python and Java producers put the messages of one key into one queue; it is never left out, since order is
worth more.

Mirrors: MQFaultStrategy, LatencyFaultToleranceImpl, TopicPublishInfo, SelectMessageQueueByHash.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from cometmq.model.java_hash import string_hash
from cometmq.model.queue import MessageQueue

AVOID_S: Final = 1.0
AVOID_S_MAX: Final = 30.0
_WEIGHT: Final = 0.1  # of the newest latency in the mean
BROKERS_MAX: Final = 4096

Selector = Callable[[Sequence[MessageQueue]], MessageQueue]


class Strategy(StrEnum):
    """How queues are chosen for messages without key."""

    ROUND_ROBIN = "round_robin"
    LEAST_LATENCY = "least_latency"


class QueueChoice:
    """The memory behind the choice; pure, the time is given."""

    def __init__(self, strategy: Strategy = Strategy.ROUND_ROBIN) -> None:
        self.strategy = strategy
        self._turn = random.randrange(1024)  # producers should not all begin with the same queue
        self._latency_s: dict[str, float] = {}
        self._failed: dict[str, tuple[float, float]] = {}  # broker → how long it is avoided, until when

    def choose(self, queues: Sequence[MessageQueue], now_s: float, not_on: str | None = None) -> MessageQueue:
        """A queue for a message without key; not on the broker that just failed, if there is another."""
        self._turn += 1
        if not self._failed and not_on is None:
            if self.strategy is Strategy.LEAST_LATENCY:
                queues = self._on_the_faster(queues)
            return queues[self._turn % len(queues)]
        good = [queue for queue in queues if queue.broker_name != not_on and not self._is_avoided(queue, now_s)]
        good = good or [queue for queue in queues if queue.broker_name != not_on]
        if good and self.strategy is Strategy.LEAST_LATENCY:
            return self._on_the_faster(good)[self._turn % len(good)]
        return (good or queues)[self._turn % len(good or queues)]

    def _is_avoided(self, queue: MessageQueue, now_s: float) -> bool:
        failed = self._failed.get(queue.broker_name or "")
        return failed is not None and now_s < failed[1]

    def _on_the_faster(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """Of two brokers at random the one that answers faster: all of them on the fastest would make it slow."""
        brokers = list({queue.broker_name: None for queue in queues})
        if len(brokers) < 2:
            return queues
        chosen = min(random.sample(brokers, 2), key=lambda name: self._latency_s.get(name or "", 0.0))
        kept = [queue for queue in queues if queue.broker_name == chosen]
        return [kept[number % len(kept)] for number in range(len(queues))] if kept else queues

    @property
    def is_curious(self) -> bool:
        """Whether it matters who answered, and how fast."""
        return bool(self._failed) or self.strategy is Strategy.LEAST_LATENCY

    def answered(self, broker_name: str, latency_s: float) -> None:
        """A broker took a message."""
        if self._failed:
            self._failed.pop(broker_name, None)
        if self.strategy is Strategy.LEAST_LATENCY:
            before = self._latency_s.get(broker_name, latency_s)
            self._latency_s[broker_name] = before + _WEIGHT * (latency_s - before)

    def failed(self, broker_name: str, now_s: float) -> None:
        """A broker took none."""
        if len(self._failed) >= BROKERS_MAX:
            self._failed.clear()
        avoided_s, until_s = self._failed.get(broker_name, (AVOID_S / 2, now_s))
        if now_s >= until_s:  # sends that were under way together fail together, and count once
            avoided_s = min(2 * avoided_s, AVOID_S_MAX)
            self._failed[broker_name] = avoided_s, now_s + avoided_s


def queue_of_key(key: str, queues: Sequence[MessageQueue]) -> MessageQueue:
    """The queue of all messages with this key, as long as the topic has these queues."""
    return queues[abs(string_hash(key)) % len(queues)]
