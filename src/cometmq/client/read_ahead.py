"""The queues that a lite pull consumer reads, each by a pull loop ahead of the program.

    done        what the program is through with       may be committed
    position    the next message to give               the lowest that waits here, or where the next pull begins

Invariants: messages of a queue are given in order; after `seek` nothing that was asked for before it is given;
`done` never passes `position`.

Mirrors: AssignedMessageQueue, DefaultLitePullConsumerImpl.PullTaskImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from cometmq.client.assignments import Holding
from cometmq.client.instance import ClientInstance
from cometmq.client.listeners import Subscription
from cometmq.client.message import ReceivedMessage
from cometmq.client.offset_store import OffsetStore, StartFrom, first_offset
from cometmq.client.process_queue import ProcessQueue, QueueLimits
from cometmq.client.pull_loop import PullLoop, PullSettings
from cometmq.errors import InvalidArgument
from cometmq.model.queue import MessageQueue


class _Reading(Holding):
    """One queue; `may_go_on` is not set while it is paused."""

    __slots__ = ("may_go_on", "messages")

    def __init__(
        self, messages: ProcessQueue, start: Callable[[ProcessQueue, asyncio.Event], asyncio.Task[None]]
    ) -> None:
        self.messages = messages
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        super().__init__(messages, start(messages, self.may_go_on))


class ReadAhead:
    """See the module. It is the keeper of its queues: `assignments.py` gives and takes them."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        store: OffsetStore,
        subscription_of: Callable[[str], Subscription | None],
        start: StartFrom | datetime,
        limits: QueueLimits,
        batch: int,
        *,
        commits_when_lost: bool,
    ) -> None:
        self._instance = instance
        self._store = store
        self._subscription_of = subscription_of
        self._start = start
        self._limits = limits
        self._settings = PullSettings(group, batch)
        self._commits_when_lost = commits_when_lost
        self._news: asyncio.Future[None] | None = None
        self.held: dict[MessageQueue, Holding] = {}
        self.done: dict[MessageQueue, int] = {}

    def _reading(self, queue: MessageQueue) -> _Reading:
        found = self.held.get(queue)
        if not isinstance(found, _Reading):
            raise InvalidArgument(f"{queue} is not read by this consumer now; it reads {len(self.held)} others")
        return found

    # --- queues come and go (QueueKeeper)

    async def take_up(self, queue: MessageQueue, is_popped: bool = False) -> Holding:
        """Begin where the group stopped, or as it wishes if it was never there."""
        offset = await first_offset(self._instance, self._store, queue, self._start)
        return _Reading(ProcessQueue(queue, offset, self._limits), self._run)

    async def let_go(self, queue: MessageQueue, holding: Holding) -> None:
        """Another member may begin where the program was through."""
        done = self.done.pop(queue, None)
        if self._commits_when_lost and done is not None and done != holding.saved:
            await self._store.save({queue: done})

    def _run(self, messages: ProcessQueue, may_go_on: asyncio.Event) -> asyncio.Task[None]:
        topic = str(messages.queue.topic)

        async def may_pull(_: ProcessQueue) -> None:
            await may_go_on.wait()

        async def moved(queue: ProcessQueue) -> None:
            self.done[queue.queue] = queue.next_offset

        loop = PullLoop(
            self._instance,
            self._settings,
            messages,
            lambda: self._subscription_of(topic),
            may_pull,
            self._arrived,
            moved,
        )
        return self._instance.spawn(loop.run(), f"reading ahead in {topic}")

    # --- messages

    def _arrived(self, queue: ProcessQueue) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def news(self, timeout_s: float) -> None:
        """Wait until messages have come."""
        if self._news is None or self._news.done():
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._news], timeout=timeout_s)

    def take(self, count: int) -> list[ReceivedMessage]:
        """Up to `count` messages; the queue that gave some is the last to be asked next time."""
        found: list[ReceivedMessage] = []
        for place in list(self.held):
            if len(found) >= count:
                break
            reading = self._reading(place)
            if reading.may_go_on.is_set() and reading.messages.waiting_count:
                slots = reading.messages.take(count - len(found))
                found += [slot.message for slot in slots]
                reading.messages.finish(slots)
                self.held[place] = self.held.pop(place)
        return found

    def settle(self) -> None:
        """The program is through with what it was given: all that lies before the positions."""
        self.done = self.positions()

    def positions(self) -> dict[MessageQueue, int]:
        return {queue: self.position(queue) for queue in self.held}

    def position(self, queue: MessageQueue) -> int:
        return self._reading(queue).messages.committable

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self._reading(queue).may_go_on.clear()

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            reading = self._reading(queue)
            reading.may_go_on.set()
            self._arrived(reading.messages)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read on from another offset. The loop is started anew: its pull may be held by the broker for long."""
        reading = self._reading(queue)
        reading.task.cancel()
        reading.messages.reset(offset)
        self.done[queue] = offset
        reading.task = self._run(reading.messages, reading.may_go_on)

    # --- offsets

    async def save(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Save what is not saved already; returns what failed."""
        news = {
            queue: offset
            for queue, offset in offsets.items()
            if (holding := self.held.get(queue)) is None or holding.saved != offset
        }
        kept = await self._store.save(news) if news else set()
        for queue in kept:
            if queue in self.held:
                self.held[queue].saved = news[queue]
        return news.keys() - kept

    def close(self) -> None:
        for holding in self.held.values():
            holding.stop()
