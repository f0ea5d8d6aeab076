"""Popping for a push consumer, where the broker that divides the queues says so (`server_assignment=True`).

A popped message is acknowledged or comes again by itself, so there is no offset to commit and no order to keep. What
fails is made invisible for longer, as long as Java waits at its count of attempts; after `max_reconsume_times` it
becomes a dead letter at once (Java's client tries on for hours and then acknowledges it). What waits here longer than
its invisible time is passed over: the broker brings it again. A pop that the broker holds when the queue is let go is
not forgotten, as messages may be handed to it at any moment: whatever it brings is handed back.

Mirrors: DefaultMQPushConsumerImpl.popMessage, PopProcessQueue, ConsumeMessagePopConcurrentlyService.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from cometmq.client.acknowledging import Acknowledger
from cometmq.client.instance import ClientInstance
from cometmq.client.listeners import Subscription
from cometmq.client.message import ReceivedMessage
from cometmq.client.process_queue import Slot
from cometmq.client.send_back import SendBack
from cometmq.errors import CometError, PeerRefused
from cometmq.model.queue import MessageQueue
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.receipt import Handle, handles_of
from cometmq.wire.record import decode_records
from cometmq.wire.requests.pop import ChangeInvisibleTime, PopMessage, PopMessageReply

log = logging.getLogger("cometmq.client")

INVISIBLE_MS: Final = 60_000
POLL_MS: Final = 15_000
TIMEOUT_MS: Final = 30_000
COUNT_MAX: Final = 96  # popped and not done with, per queue
PAUSE_AFTER_FAULT_S: Final = 1.0
HAND_BACK_MS: Final = 1_000
DEAD: Final = -1
DELAYS_S: Final = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)

_FOUND: Final = int(ResponseCode.SUCCESS)
_NOTHING: Final = (int(ResponseCode.POLLING_TIMEOUT), int(ResponseCode.PULL_NOT_FOUND))


class PopSlot(Slot):
    """A popped message with its receipt; `until_s` is when it becomes visible to others."""

    __slots__ = ("handle", "until_s")

    def __init__(self, message: ReceivedMessage, handle: Handle, until_s: float) -> None:
        super().__init__(message)
        self.handle = handle
        self.until_s = until_s


class PopQueue:
    """To the workers it looks like a `ProcessQueue`, but messages are done with one by one."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        queue: MessageQueue,
        acknowledger: Acknowledger,
        send_back: SendBack,
        reconsume_times_max: int,
    ) -> None:
        self.queue = queue
        self.is_dropped = False
        self.count = 0
        self.size = 0
        self.last_pulled_s = 0.0
        self.last_consumed_s = 0.0
        self.on_room: Callable[[], None] | None = None
        self._instance = instance
        self._group = group
        self._acknowledger = acknowledger
        self._send_back = send_back
        self._times_max = reconsume_times_max
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[PopSlot] = deque()

    def put(self, slots: Iterable[PopSlot]) -> None:
        for slot in slots:
            self._waiting.append(slot)
            self.count += 1
            self.size += slot.message.record.size

    def take(self, count: int) -> list[Slot]:
        """The next messages whose time is not over."""
        found: list[Slot] = []
        now = self._loop.time()
        while self._waiting and len(found) < count:
            slot = self._waiting.popleft()
            if slot.until_s > now:
                found.append(slot)
            else:
                self._end(slot)
        return found

    @property
    def waiting(self) -> Iterable[Slot]:
        return self._waiting

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        return self.count < COUNT_MAX

    def _end(self, slot: Slot) -> None:
        if not slot.is_finished:
            slot.is_finished = True
            self.count -= 1
            self.size -= slot.message.record.size
            if self.on_room is not None and self.has_room:
                self.on_room()

    async def ack(self, slots: Iterable[Slot]) -> None:
        """Done with these."""
        await asyncio.gather(*[self._ack(slot) for slot in slots if isinstance(slot, PopSlot)])

    async def _ack(self, slot: PopSlot) -> None:
        try:
            await self._acknowledger.ack(slot.message.topic, slot.handle)
        except CometError as fault:
            log.warning("%r was consumed but not acknowledged, it will come again: %s", slot.message, fault)
        finally:
            self._end(slot)

    async def pass_over(self, unwanted: list[PopSlot]) -> None:
        """Done with these, though nobody has taken them."""
        self._waiting = deque(slot for slot in self._waiting if slot not in unwanted)
        await self.ack(unwanted)

    async def later(self, slots: Iterable[Slot], level: int) -> None:
        """These failed: let them come again, or be dead letters."""
        await asyncio.gather(*[self._later(slot, level) for slot in slots if isinstance(slot, PopSlot)])

    async def _later(self, slot: PopSlot, level: int) -> None:
        message = slot.message
        is_dead = level == DEAD or message.reconsume_times >= self._times_max
        if is_dead and await self._send_back.later(message, DEAD):
            await self._ack(slot)
            return
        step = level if level > 0 else message.reconsume_times
        await self._change(slot, DELAYS_S[min(step, len(DELAYS_S) - 1)] * 1000)

    async def hand_back(self) -> None:
        """Let others have soon what nobody has taken here."""
        waiting, self._waiting = self._waiting, deque()
        await asyncio.gather(*[self._change(slot, HAND_BACK_MS) for slot in waiting])

    async def _change(self, slot: PopSlot, invisible_ms: int) -> None:
        handle = slot.handle
        try:
            topic = handle.topic(slot.message.topic, self._group)
            request = ChangeInvisibleTime(
                topic, self._group, handle.queue_id, handle.render(), handle.queue_offset, invisible_ms
            )
            await self._instance.call(handle.broker_name, request)
        except CometError as fault:
            log.info("%r comes again when its invisible time is over: %s", slot.message, fault)
        finally:
            self._end(slot)


class PopLoop:
    """Fills one `PopQueue`: one request at a time, which the broker holds until there are messages."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        queue: PopQueue,
        subscription: Callable[[], Subscription | None],
        may_pop: Callable[[], Awaitable[object]],
        deliver: Callable[[PopQueue], None],
        *,
        batch: int,
        init_mode: int,
    ) -> None:
        self._instance = instance
        self._group = group
        self._queue = queue
        self._subscription = subscription
        self._may_pop = may_pop
        self._deliver = deliver
        self._batch = min(batch, 32)  # more are refused
        self._init_mode = init_mode
        self._room: asyncio.Future[None] | None = None
        self._is_asking = False
        self._task: asyncio.Task[None] | None = None
        queue.on_room = self._has_room

    def start(self) -> asyncio.Task[None]:
        self._task = self._instance.spawn(self.run(), f"popping {self._queue.queue}")
        return self._task

    def stop(self) -> None:
        """Ask no more; what was asked for already is waited for, and handed back."""
        self._queue.is_dropped = True
        if self._task is not None and not self._is_asking:
            self._task.cancel()

    def _has_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def run(self) -> None:
        """Pop until the queue is dropped, or for ever."""
        loop = asyncio.get_running_loop()
        while not self._queue.is_dropped:
            await self._may_pop()
            while not self._queue.has_room:
                self._room = loop.create_future()
                await self._room
            subscription = self._subscription()
            if subscription is None:
                return
            try:
                self._queue.last_pulled_s = loop.time()
                await self._pop(subscription)
            except CometError as fault:
                log.info("popping %s failed, trying again: %s", self._queue.queue, fault)
                await asyncio.sleep(PAUSE_AFTER_FAULT_S)

    async def _pop(self, subscription: Subscription) -> None:
        queue, data = self._queue.queue, subscription.data
        request = PopMessage(
            self._group,
            data.topic,
            queue.queue_id,
            self._batch,
            INVISIBLE_MS,
            POLL_MS,
            0,  # the broker's own clock counts
            self._init_mode,
            data.expression_type,
            data.sub_string,
        )
        self._is_asking = True
        try:
            answer = await self._instance.exchange(str(queue.broker_name), request, timeout_ms=TIMEOUT_MS)
        finally:
            self._is_asking = False
        if answer.code == _FOUND:
            await self._take(answer, subscription)
        elif answer.code not in _NOTHING:
            raise PeerRefused(answer.code, answer.remark or "", f"broker {queue.broker_name}")

    async def _take(self, answer: Command, subscription: Subscription) -> None:
        broker = str(self._queue.queue.broker_name)
        reply = PopMessageReply.read(answer.ext)
        records = list(decode_records(answer.body))
        until_s = asyncio.get_running_loop().time() + reply.invisible_time / 1000
        slots = [
            PopSlot(ReceivedMessage(record, broker, topic=subscription.data.topic), handle, until_s)
            for record, handle in zip(records, handles_of(reply, records, broker), strict=True)
        ]
        unwanted = [slot for slot in slots if not subscription.wants(slot.message)]
        self._queue.put(slots)
        if unwanted:  # only the hash of the tag was wanted; it would come again and again
            await self._queue.pass_over(unwanted)
        if self._queue.is_dropped:
            await self._queue.hand_back()
        else:
            self._deliver(self._queue)
