"""Concurrent consumption: any worker takes the next message; what fails is given back to come again later.

A message that cannot be given back either stays, holds the committed offset where it is, and is tried again after
`AGAIN_S`. In broadcasting nobody takes it back: it is logged and passed over, as in Java. What ends after its queue
went to another member counts for nothing: the other has the message too.

Mirrors: ConsumeMessageConcurrentlyService.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cometmq.client.consuming import TURN_S, Consuming, ListenerOf, Worker, WorkQueue
from cometmq.client.instance import ClientInstance
from cometmq.client.pop_loop import PopQueue
from cometmq.client.process_queue import ProcessQueue, Slot
from cometmq.client.send_back import SendBack
from cometmq.errors import RetryLater

log = logging.getLogger("cometmq.client")

AGAIN_S: Final = 5.0


class ConcurrentConsuming(Consuming):
    """See the module. Without `send_back` it is broadcasting."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        listener_of: ListenerOf,
        send_back: SendBack | None,
        *,
        concurrency: int,
        timeout_s: float,
        delay_level: int,
    ) -> None:
        super().__init__(instance, group, listener_of, concurrency=concurrency, timeout_s=timeout_s)
        self._send_back = send_back
        self._delay_level = delay_level

    async def serve(self, worker: Worker, queue: WorkQueue) -> None:
        turn_ends = self.loop.time() + TURN_S
        while True:
            listener, slots = self.take(queue)
            self.offer_rest(queue)
            if slots:
                queue.last_consumed_s = self.loop.time()
                fault = await self.hear(worker, listener, slots)
                if isinstance(queue, PopQueue):
                    await self._popped(queue, slots, fault)
                elif fault is None:
                    queue.finish(slots)
                elif not queue.is_dropped:
                    await self._failed(queue, slots, fault)
            if worker.left:
                return
            if self.loop.time() >= turn_ends:
                await asyncio.sleep(0)
                return
            # The same queue again, as long as nobody else waits: cheaper than standing in line.
            if len(self._line) != 1 or self._line[0] is not queue or not queue.waiting_count or not self.may_go_on:
                return

    def offer_rest(self, queue: WorkQueue) -> None:
        """Let other workers have what is left."""
        if queue.waiting_count and id(queue) not in self._in_line:
            self._in_line.add(id(queue))
            self._line.append(queue)

    def _judge(self, slots: list[Slot], fault: BaseException) -> tuple[list[Slot], list[Slot], int]:
        """What of it is done with, what is to come again, and at which delay level."""
        if not isinstance(fault, RetryLater):
            return [], slots, self._delay_level
        level = self._delay_level if fault.delay_level is None else fault.delay_level
        if fault.only is None:
            return [], slots, level
        again = set(map(id, fault.only))
        return (
            [slot for slot in slots if id(slot.message) not in again],
            [slot for slot in slots if id(slot.message) in again],
            level,
        )

    async def _popped(self, queue: PopQueue, slots: list[Slot], fault: BaseException | None) -> None:
        if fault is None:
            await queue.ack(slots)
            return
        done, again, level = self._judge(slots, fault)
        await queue.ack(done)
        await queue.later(again, level)

    async def _failed(self, queue: ProcessQueue, slots: list[Slot], fault: BaseException) -> None:
        done, slots, level = self._judge(slots, fault)
        queue.finish(done)
        if self._send_back is None:
            log.warning("group %s: broadcasting, so %d failed message(s) are passed over", self.group, len(slots))
            queue.finish(slots)
            return
        send_back = self._send_back
        slots = [slot for slot in slots if not slot.is_finished]  # a reset may have forgotten them
        taken = await asyncio.gather(*[send_back.later(slot.message, level) for slot in slots])
        queue.finish([slot for slot, is_taken in zip(slots, taken, strict=True) if is_taken])
        left = [slot for slot in slots if not slot.is_finished]
        if left:
            for slot in left:
                slot.message.record.reconsume_times += 1
            self.loop.call_later(AGAIN_S, self._again, queue, left)

    def _again(self, queue: ProcessQueue, slots: list[Slot]) -> None:
        queue.put_back(slots)
        self.offer(queue)
