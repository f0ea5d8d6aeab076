"""Orderly consumption: one worker per queue at a time, and nothing after a message until that one is done.

What fails is tried again in place after a pause, for ever or until `max_reconsume_times`, when it is sent to the retry
topic, whose broker makes it a dead letter. A queue is consumed only while the broker's lock on it is ours. A queue that
went to another member is finished with first (`released`), then unlocked; so the other begins where we ended.

Mirrors: ConsumeMessageOrderlyService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from cometmq.client.consuming import Consuming, ListenerOf, Worker, WorkQueue
from cometmq.client.instance import ClientInstance
from cometmq.client.process_queue import ProcessQueue, Slot
from cometmq.client.send_back import SendBack
from cometmq.errors import RetryLater

log = logging.getLogger("cometmq.client")

TURN_S: Final = 0.005
_NOT_LOCKED_PAUSE_S: Final = 0.1


class OrderlyConsuming(Consuming):
    """See the module. `holds` says whether the lock on a queue is ours; without `send_back` it is broadcasting."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        listener_of: ListenerOf,
        send_back: SendBack | None,
        *,
        concurrency: int,
        timeout_s: float,
        reconsume_times_max: int,
        pause_s: float,
        holds: Callable[[ProcessQueue], bool],
    ) -> None:
        super().__init__(instance, group, listener_of, concurrency=concurrency, timeout_s=timeout_s)
        self._send_back = send_back
        self._times_max = reconsume_times_max
        self._pause_s = pause_s
        self._holds = holds
        self._busy: dict[int, asyncio.Future[None]] = {}  # queues that a worker or a pause has; by identity

    def offer(self, queue: WorkQueue) -> None:
        if id(queue) not in self._busy:
            super().offer(queue)

    def _useful_workers(self, queue: WorkQueue) -> int:
        return 1

    async def released(self, queue: ProcessQueue) -> None:
        """Wait until no listener has a message of the queue any more."""
        busy = self._busy.get(id(queue))
        if busy is not None:
            await asyncio.shield(busy)

    async def serve(self, worker: Worker, queue: WorkQueue) -> None:
        assert isinstance(queue, ProcessQueue)  # popping is never orderly here
        free = self._busy[id(queue)] = self.loop.create_future()
        pause_s = 0.0
        try:
            pause_s = await self._consume(worker, queue)
        finally:
            if not pause_s or queue.is_dropped:
                self._free(queue, free)
            else:
                # A stop or a loss of the queue does not wait for the pause: no listener runs in it.
                free.set_result(None)
                self.loop.call_later(pause_s, self._free, queue, free)
        if not pause_s:
            await asyncio.sleep(0)
            self.offer(queue)

    def _free(self, queue: ProcessQueue, free: asyncio.Future[None]) -> None:
        if self._busy.get(id(queue)) is free:
            del self._busy[id(queue)]
        if not free.done():
            free.set_result(None)
        else:
            self.offer(queue)

    async def _consume(self, worker: Worker, queue: ProcessQueue) -> float:
        """Consume for a turn; returns for how long the queue has to rest."""
        turn_ends = self.loop.time() + TURN_S
        while queue.waiting_count and not queue.is_dropped and self.may_go_on:
            if not self._holds(queue):
                return _NOT_LOCKED_PAUSE_S
            listener, slots = self.take(queue)
            queue.last_consumed_s = self.loop.time()
            fault = await self.hear(worker, listener, slots)
            if fault is None:
                queue.finish(slots)
            else:
                if isinstance(fault, RetryLater) and fault.only is not None:
                    again = set(map(id, fault.only))
                    queue.finish([slot for slot in slots if id(slot.message) not in again])
                if await self._failed(queue, [slot for slot in slots if not slot.is_finished]):
                    return self._pause_s
            if worker.left or self.loop.time() >= turn_ends:
                break
        return 0.0

    async def _failed(self, queue: ProcessQueue, slots: list[Slot]) -> bool:
        """Count the attempt; True if something of it is to be tried again in place."""
        left: list[Slot] = []
        for slot in slots:
            message = slot.message
            exhausted = self._send_back is not None and message.reconsume_times >= self._times_max
            if exhausted and self._send_back is not None and await self._send_back.anew(message):
                queue.finish([slot])
                continue
            message.record.reconsume_times += 1
            left.append(slot)
        queue.put_back(left)
        return bool(left)
