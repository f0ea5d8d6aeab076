"""The queues of a push consumer from taking up to letting go: their loops, locks and saved offsets.

A queue begins where the group stopped, is pulled (or popped) by a task of its own, and its committable offset is saved
every second if it has changed (less often where there are many queues), and when it is let go.

Mirrors: RebalancePushImpl, DefaultMQPushConsumerImpl (persistConsumerOffset, resetOffset).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cometmq.client.acknowledging import Acknowledger
from cometmq.client.assignments import Holding
from cometmq.client.consuming import Consuming
from cometmq.client.instance import ClientInstance
from cometmq.client.listen_orderly import OrderlyConsuming
from cometmq.client.listeners import Subscription
from cometmq.client.offset_store import OffsetStore, StartFrom, first_offset
from cometmq.client.pop_loop import PopLoop, PopQueue
from cometmq.client.process_queue import ProcessQueue, QueueLimits
from cometmq.client.pull_loop import PullLoop, PullSettings
from cometmq.client.queue_locks import QueueLocks
from cometmq.client.send_back import SendBack
from cometmq.errors import CometError
from cometmq.model.queue import MessageQueue

log = logging.getLogger("cometmq.client")

SAVE_INTERVAL_S: Final = 1.0
SAVES_PER_S: Final = 200
LET_GO_TIMEOUT_S: Final = 20.0
_LOCK_PAUSE_S: Final = 0.1
_FROM_FIRST, _FROM_LAST = 0, 1


@dataclass(frozen=True, slots=True)
class Popping:
    """What is needed where the broker wants a topic to be popped."""

    acknowledger: Acknowledger
    send_back: SendBack
    reconsume_times_max: int


class HeldQueues:
    """See the module. `Assignments` fills and empties `held`; with `is_locking` brokers lock the queues for us."""

    def __init__(
        self,
        instance: ClientInstance,
        pulling: PullSettings,
        store: OffsetStore,
        consuming: Consuming,
        subscription_of: Callable[[str], Subscription | None],
        *,
        start_from: StartFrom | datetime,
        limits: QueueLimits,
        popping: Popping | None,
        is_locking: bool,
    ) -> None:
        self._instance = instance
        self._group = pulling.group
        self._pulling = pulling
        self._store = store
        self._consuming = consuming
        self._subscription_of = subscription_of
        self._start_from = start_from
        self._limits = limits
        self._popping = popping
        self.held: dict[MessageQueue, Holding] = {}
        self.locks = QueueLocks(instance, self._group, lambda: self.held, self.pull_anew) if is_locking else None
        self.unsuspended = asyncio.Event()
        self.unsuspended.set()

    # --- coming and going (QueueKeeper)

    async def take_up(self, queue: MessageQueue, is_popped: bool) -> Holding | None:
        if is_popped:
            return self._pop(queue)
        if self.locks is not None and queue not in await self.locks.lock([queue]):
            return None
        begin = await first_offset(self._instance, self._store, queue, self._start_from)
        process_queue = ProcessQueue(queue, begin, self._limits)
        return Holding(process_queue, self._pull(process_queue))

    def _pull(self, queue: ProcessQueue) -> asyncio.Task[None]:
        topic = str(queue.queue.topic)
        pulling = PullLoop(
            self._instance,
            self._pulling,
            queue,
            lambda: self._subscription_of(topic),
            self._may_pull,
            self._consuming.offer,
            self._moved,
        )
        return self._instance.spawn(pulling.run(), f"pulling {queue.queue}")

    def _pop(self, queue: MessageQueue) -> Holding | None:
        if self._popping is None:
            return None
        popping, topic = self._popping, str(queue.topic)
        popped = PopQueue(
            self._instance,
            self._group,
            queue,
            popping.acknowledger,
            popping.send_back,
            popping.reconsume_times_max,
        )
        loop = PopLoop(
            self._instance,
            self._group,
            popped,
            lambda: self._subscription_of(topic),
            self.unsuspended.wait,
            self._consuming.offer,
            batch=self._pulling.batch,
            init_mode=_FROM_FIRST if self._start_from is StartFrom.FIRST else _FROM_LAST,
        )
        return Holding(popped, loop.start(), loop)

    def pull_anew(self, queue: MessageQueue) -> None:
        """Forget the pull that is under way; the next one begins where the process queue says."""
        holding = self.held.get(queue)
        if holding is not None and isinstance(holding.queue, ProcessQueue):
            holding.task.cancel()
            holding.task = self._pull(holding.queue)

    async def _may_pull(self, queue: ProcessQueue) -> None:
        await self.unsuspended.wait()
        locks = self.locks
        if locks is None:
            return
        while not locks.holds(queue.queue):  # noqa: ASYNC110 it ends by the clock, too
            await asyncio.sleep(_LOCK_PAUSE_S)
        if locks.has_changed(queue.queue):  # another may have gone on meanwhile
            queue.reset(await first_offset(self._instance, self._store, queue.queue, self._start_from))
            locks.is_seen_to(queue.queue)

    def may_consume(self, queue: ProcessQueue) -> bool:
        """Whether the order is safe: the lock is ours, and what was pulled is of this time of ours."""
        return self.locks is None or (self.locks.holds(queue.queue) and not self.locks.has_changed(queue.queue))

    async def _moved(self, queue: ProcessQueue) -> None:
        await self._store.save({queue.queue: queue.committable})

    async def let_go(self, queue: MessageQueue, holding: Holding) -> None:
        if isinstance(holding.queue, PopQueue):
            await holding.queue.hand_back()
            return
        if isinstance(self._consuming, OrderlyConsuming):
            try:
                async with asyncio.timeout(LET_GO_TIMEOUT_S):
                    await self._consuming.released(holding.queue)
            except TimeoutError:
                log.warning("group %s: a listener keeps %s longer than %g s", self._group, queue, LET_GO_TIMEOUT_S)
        await self._store.save({queue: holding.queue.committable})
        if self.locks is not None:
            await self.locks.unlock([queue])

    def stop(self) -> None:
        """Pull nothing more, and let nothing more be taken."""
        for holding in self.held.values():
            holding.stop()

    async def hand_back(self) -> None:
        """Let others have what is left: locks, and popped messages."""
        popped = [holding.queue for holding in self.held.values() if isinstance(holding.queue, PopQueue)]
        await asyncio.gather(*[queue.hand_back() for queue in popped])
        if self.locks is not None:
            await self.locks.unlock_all()

    # --- offsets

    def progress(self) -> dict[MessageQueue, int]:
        """How far each queue is that is pulled."""
        return {
            queue: holding.queue.committable
            for queue, holding in self.held.items()
            if isinstance(holding.queue, ProcessQueue)
        }

    async def save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(max(SAVE_INTERVAL_S, len(self.held) / SAVES_PER_S))
            await self.save()

    async def save(self) -> None:
        """Save what has changed; what goes wrong is logged, and done again the next time."""
        news = {queue: offset for queue, offset in self.progress().items() if self.held[queue].saved != offset}
        if not news:
            return
        try:
            kept = await self._store.save(news)
        except (CometError, OSError) as fault:
            log.warning("group %s: the offsets were not saved: %s", self._group, fault)
            return
        for queue in kept:
            if queue in self.held:
                self.held[queue].saved = news[queue]

    async def move(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from these offsets."""
        moved: dict[MessageQueue, int] = {}
        for queue, offset in offsets.items():
            holding = self.held.get(queue)
            if holding is not None and queue.topic == topic and isinstance(holding.queue, ProcessQueue):
                holding.queue.reset(offset)
                self.pull_anew(queue)
                moved[queue] = offset
        log.info("group %s: moved to %s", self._group, moved)
        if moved:
            await self._store.save(moved)
