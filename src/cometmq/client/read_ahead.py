"""The queues that a lite pull consumer reads, each by a pull loop ahead of the program.

    done        what the program is through with       may be committed
    position    the next message to give               the lowest that waits here, or where the next pull begins

Invariants: messages of a queue are given in order; after `seek` nothing that was asked for before it is given;
`done` never passes `position`.

Mirrors: AssignedMessageQueue, DefaultLitePullConsumerImpl.PullTaskImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

from cometmq.client.instance import ClientInstance
from cometmq.client.listeners import Subscription
from cometmq.client.message import ReceivedMessage
from cometmq.client.offset_store import OffsetStore, StartFrom, first_offset
from cometmq.client.process_queue import ProcessQueue, QueueLimits
from cometmq.client.pull_loop import PullLoop, PullSettings
from cometmq.errors import InvalidArgument
from cometmq.model.queue import MessageQueue


class _Reading:
    """One queue."""

    def __init__(self, queue: ProcessQueue) -> None:
        self.queue = queue
        self.task: asyncio.Task[None] | None = None
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()


class ReadAhead:
    """See the module."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        store: OffsetStore,
        subscription_of: Callable[[str], Subscription | None],
        start: StartFrom | datetime,
        limits: QueueLimits,
        batch: int,
    ) -> None:
        self._instance = instance
        self._store = store
        self._subscription_of = subscription_of
        self._start = start
        self._limits = limits
        self._settings = PullSettings(group, batch, commits=False)
        self._readings: dict[MessageQueue, _Reading] = {}
        self._news: asyncio.Future[None] | None = None
        self.done: dict[MessageQueue, int] = {}

    @property
    def queues(self) -> list[MessageQueue]:
        return list(self._readings)

    def _reading(self, queue: MessageQueue) -> _Reading:
        found = self._readings.get(queue)
        if found is None:
            raise InvalidArgument(f"{queue} is not read by this consumer now; it reads {len(self._readings)} others")
        return found

    async def add(self, queue: MessageQueue) -> None:
        """Begin where the group stopped, or as it wishes if it was never there."""
        offset = await first_offset(self._instance, self._store, queue, self._start)
        reading = self._readings[queue] = _Reading(ProcessQueue(queue, offset, self._limits))
        self._run(reading)

    def _run(self, reading: _Reading) -> None:
        topic = str(reading.queue.queue.topic)

        async def may_pull(_: ProcessQueue) -> None:
            await reading.may_go_on.wait()

        async def moved(queue: ProcessQueue) -> None:
            self.done[queue.queue] = queue.next_offset

        loop = PullLoop(
            self._instance,
            self._settings,
            reading.queue,
            lambda: self._subscription_of(topic),
            may_pull,
            self._arrived,
            moved,
        )
        reading.task = self._instance.spawn(loop.run(), f"reading ahead in {topic}")

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
        for place in list(self._readings):
            if len(found) >= count:
                break
            reading = self._readings[place]
            if reading.may_go_on.is_set() and reading.queue.waiting_count:
                slots = reading.queue.take(count - len(found))
                found += [slot.message for slot in slots]
                reading.queue.finish(slots)
                self._readings[place] = self._readings.pop(place)
        return found

    def settle(self) -> None:
        """The program is through with what it was given: all that lies before the positions."""
        self.done = {queue: reading.queue.committable for queue, reading in self._readings.items()}

    def position(self, queue: MessageQueue) -> int:
        return self._reading(queue).queue.committable

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self._reading(queue).may_go_on.clear()

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self._reading(queue).may_go_on.set()
            self._arrived(self._reading(queue).queue)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read on from another offset. The loop is started anew: its pull may be held by the broker for long."""
        reading = self._reading(queue)
        await self._stop(reading)
        if self._readings.get(queue) is reading:
            reading.queue.reset(offset)
            self.done[queue] = offset
            self._run(reading)

    async def drop(self, queues: Iterable[MessageQueue]) -> None:
        """Read these no more."""
        for queue in queues:
            reading = self._readings.pop(queue)
            reading.queue.is_dropped = True
            self.done.pop(queue, None)
            await self._stop(reading)

    async def _stop(self, reading: _Reading) -> None:
        if reading.task is not None:
            reading.task.cancel()
            await asyncio.wait([reading.task])

    async def close(self) -> None:
        await self.drop(self.queues)
