"""Which queues a consumer has now, kept in step with its group: asked every 20 s, and at once when something changes.

A queue that is no longer ours is dropped: its pulls end, its offset is saved, and in orderly consumption it is unlocked
once no listener has a message of it. A new one is begun where the group stopped; in orderly consumption only when its
lock is ours, so while another member still finishes, we ask again every second.
Invariant: a queue is in `held` at most once, and never while it is still being let go.

Mirrors: RebalanceImpl, RebalancePushImpl, RebalanceService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from cometmq.client.instance import ClientInstance
from cometmq.client.pop_loop import PopLoop, PopQueue
from cometmq.client.process_queue import ProcessQueue
from cometmq.client.rebalance import AssignmentStrategy, assign
from cometmq.errors import CometError, PeerUnreachable, TopicNotFound
from cometmq.model.names import RETRY_PREFIX
from cometmq.model.queue import MessageQueue
from cometmq.wire.bodies.assignment import POP, AssignmentQuery, decode_assignment
from cometmq.wire.requests.members import QueryAssignment

log = logging.getLogger("cometmq.client")

INTERVAL_S: Final = 20.0
INTERVAL_UNBALANCED_S: Final = 1.0
_AT_ONCE_MAX: Final = 32  # queues that are taken up together


class Holding:
    """A queue that is ours: its messages, the task that fills it, and the offset that was saved last."""

    __slots__ = ("pop_loop", "queue", "saved", "task")

    def __init__(
        self, queue: ProcessQueue | PopQueue, task: asyncio.Task[None], pop_loop: PopLoop | None = None
    ) -> None:
        self.queue = queue
        self.task = task
        self.pop_loop = pop_loop
        self.saved: int | None = None

    @property
    def is_popped(self) -> bool:
        return self.pop_loop is not None

    def stop(self) -> None:
        """Ask for no more messages, and let none of those that are here be taken."""
        self.queue.is_dropped = True
        if self.pop_loop is not None:
            self.pop_loop.stop()
        else:
            self.task.cancel()


def counts(held: Mapping[MessageQueue, Holding]) -> dict[str, int]:
    """How much is held of how many queues, as the counters of a consumer tell it."""
    queues = [holding.queue for holding in held.values()]
    return {
        "held_messages": sum(queue.count for queue in queues),
        "held_bytes": sum(queue.size for queue in queues),
        "queues": len(queues),
    }


class QueueKeeper(Protocol):
    """What is done with a queue that comes or goes."""

    @property
    def held(self) -> dict[MessageQueue, Holding]: ...

    async def take_up(self, queue: MessageQueue, is_popped: bool) -> Holding | None:
        """Begin with a queue; None if it cannot be had yet."""

    async def let_go(self, queue: MessageQueue, holding: Holding) -> None:
        """End with a queue that is marked as dropped; returns when another member may have it."""


Share = dict[MessageQueue, bool]  # queues, and whether they are popped


class Assignments:
    """See the module. `topics` tells what is subscribed to; in broadcasting (`takes_all`) everyone has every queue."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        topics: Callable[[], Iterable[str]],
        keeper: QueueKeeper,
        strategy: AssignmentStrategy,
        *,
        takes_all: bool,
        by_server: bool,
    ) -> None:
        self._instance = instance
        self._group = group
        self._topics = topics
        self._keeper = keeper
        self._held = keeper.held
        self._strategy = strategy
        self._takes_all = takes_all
        self._by_server = by_server
        self._due = asyncio.Event()
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self._missing: set[str] = set()

    def soon(self) -> None:
        """Something has changed: look again."""
        self._due.set()

    async def run(self) -> None:
        """Stay in step, for ever."""
        is_balanced = True
        while True:
            try:
                async with asyncio.timeout(INTERVAL_S if is_balanced else INTERVAL_UNBALANCED_S):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            is_balanced = await self.balance()

    async def balance(self) -> bool:
        """Look once; False if it should be done again soon."""
        is_balanced = True
        wanted = list(self._topics())
        for topic in wanted:
            try:
                is_balanced &= await self._balance(topic)
            except CometError as fault:
                if not topic.startswith(RETRY_PREFIX):
                    level = logging.INFO if fault.retriable else logging.WARNING
                    log.log(level, "group %s: the queues of %s could not be taken: %s", self._group, topic, fault)
                is_balanced = False
            except Exception:
                log.exception("group %s: dividing the queues of %s failed", self._group, topic)
                is_balanced = False
        for queue in [queue for queue in self._held if queue.topic not in wanted]:
            self._drop(queue)
        return is_balanced

    async def _balance(self, topic: str) -> bool:
        mine = await self._share(topic)
        if mine is None:
            return False
        for queue in [queue for queue in self._held if queue.topic == topic]:
            holding = self._held[queue]
            # A task that has ended is a fault that should not be: begin anew.
            if mine.get(queue) is not holding.is_popped or holding.task.done():
                self._drop(queue)
        new = [queue for queue in sorted(mine) if queue not in self._held and queue not in self._leaving]
        for start in range(0, len(new), _AT_ONCE_MAX):
            chunk = new[start : start + _AT_ONCE_MAX]
            ends = await asyncio.gather(*[self._take_up(queue, mine[queue]) for queue in chunk], return_exceptions=True)
            for fault in ends:
                if fault is not None:
                    raise fault
        return all(queue in self._held for queue in mine)

    async def _take_up(self, queue: MessageQueue, is_popped: bool) -> None:
        holding = await self._keeper.take_up(queue, is_popped)
        if holding is not None:
            self._held[queue] = holding

    async def _share(self, topic: str) -> Share | None:
        """The queues that should be ours; None if nobody can say now."""
        try:
            await self._instance.route(topic)
        except TopicNotFound as fault:
            if topic not in self._missing and not topic.startswith(RETRY_PREFIX):
                log.warning("group %s waits for a topic: %s", self._group, fault)
            self._missing.add(topic)
            return None
        self._missing.discard(topic)
        queues = self._instance.readable_queues(topic)
        if self._takes_all:
            return dict.fromkeys(queues, False)
        if self._by_server:
            return await self._ask_server(topic)
        ids = await self._instance.consumer_ids(topic, self._group)
        mine = assign(self._strategy, self._instance.client_id, queues, ids)
        return None if mine is None else dict.fromkeys(mine, False)

    async def _ask_server(self, topic: str) -> Share | None:
        query = AssignmentQuery(topic, self._group, self._instance.client_id, self._strategy.name).encode()
        fault: CometError = PeerUnreachable(f"the topic {topic} has no broker now")
        for broker in (await self._instance.route(topic)).brokers:
            try:
                answer = await self._instance.call(broker.broker_name, QueryAssignment(), query, or_any=True)
            except CometError as lost:
                fault = lost
                continue
            found = decode_assignment(answer.body)
            return None if found is None else {queue: mode == POP for queue, mode in found}
        raise fault

    def _drop(self, queue: MessageQueue) -> None:
        """Stop with a queue at once; what is left to do for it is done beside."""
        holding = self._held.pop(queue)
        holding.stop()
        task = self._instance.spawn(self._keeper.let_go(queue, holding), f"letting go of {queue}")
        self._leaving[queue] = task
        task.add_done_callback(lambda _: self._left(queue))

    def _left(self, queue: MessageQueue) -> None:
        self._leaving.pop(queue, None)
        self._due.set()

    async def settle(self, timeout_s: float) -> None:
        """Wait for queues that are being let go."""
        if self._leaving:
            await asyncio.wait(list(self._leaving.values()), timeout=timeout_s)
