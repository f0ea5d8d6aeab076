"""All sends of one producer: put on their way, retried on another broker, given up in time, never too many at once.

`post` returns when the message is on its way: it waits for room, for the route and the connection if they are not
there yet, and for a broker that reads slowly. Its answer comes to `answered` by way of the `Sending` (`sending.py`).
Failures take the slow way, in a task.

A send has `timeout_ms` for all its attempts together; times are kept by one sweep. A message that was not answered may
still have been stored: a retry can make it two, as with any client of RocketMQ.

Invariants: at most `in_flight_max` sends of `in_flight_bytes_max` together are under way; each that entered is closed
exactly once, and who waits for room is woken for each.

Mirrors: DefaultMQProducerImpl (sendDefaultImpl, sendKernelImpl).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from cometmq.client.instance import ClientInstance
from cometmq.client.message import Receipt
from cometmq.client.queue_choice import QueueChoice
from cometmq.client.send_answers import AGAIN, GO_AWAY, PAUSE, STATUS, reason
from cometmq.client.send_hooks import SendHook
from cometmq.client.sending import BATCH, Kind, Sending
from cometmq.clock import Clock, SystemClock
from cometmq.errors import ClientClosed, CometError, PeerError, PeerTimeout, SendFailed
from cometmq.model.names import AUTO_CREATE_TOPIC
from cometmq.model.queue import MessageQueue
from cometmq.net.channel import Channel
from cometmq.net.server import outward_ip
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.message_id import UniqueIds
from cometmq.wire.record import pack_host
from cometmq.wire.send_template import SendTemplate, SignedSends

TEMPLATES_MAX: Final = 16_384
SWEEP_S: Final = 0.1
PAUSE_S: Final = 0.05


class Sender:
    """All sends of one producer."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        choice: QueueChoice,
        *,
        in_flight_max: int,
        in_flight_bytes_max: int,
        new_queues: int,
        clock: Clock | None = None,
    ) -> None:
        self.instance = instance
        self.group = group
        self.choice = choice
        self.clock: Clock = clock or SystemClock()
        self.loop = asyncio.get_running_loop()
        self.unique_ids = UniqueIds(pack_host(outward_ip("0.0.0.0"), 0)[:-4], os.getpid(), random.getrandbits(32))
        self.sent = self.retried = self.given_up = 0
        self.hooks: list[SendHook] = []
        self.is_closed = False
        self._in_flight_max = in_flight_max
        self._bytes_max = in_flight_bytes_max
        self._new_queues = new_queues
        self._templates: dict[tuple[Kind, MessageQueue], SendTemplate | SignedSends] = {}
        self._open: set[Sending] = set()
        self._bytes = 0
        self._waiting_for_room: deque[asyncio.Future[None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def in_flight(self) -> int:
        return len(self._open)

    # --- the way out

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        return self.instance.routes.writable.get(topic) or await self.instance.writable_queues(
            topic, new_queues=self._new_queues
        )

    def choose(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        """One of these queues, as a message without key would get it."""
        return self.choice.choose(queues, self.loop.time())

    async def post(self, sending: Sending) -> asyncio.Future[Any]:
        """Put a send on its way; the future has its receipt, or `SendFailed`."""
        if not self.post_now(sending):
            if not self._has_room:
                await self._room()
            if self.is_closed:
                raise ClientClosed("the producer is closed; make a new one")
            self._enter(sending)
            try:
                await self._go_slowly(sending)
            except BaseException:  # cancelled by the program, which waits right here; or a fault of ours
                self._close(sending)
                sending.future.cancel()
                raise
        return sending.future

    def post_now(self, sending: Sending) -> bool:
        """The same without waiting for anything; False, and nothing done, where something must be waited for."""
        queue = sending.pinned
        if queue is None:
            queues = self.instance.routes.writable.get(sending.topic)
            if not queues:
                return False
            queue = self.choice.choose(queues, sending.started)
        channel = self.instance.open_channel(queue.broker_name)
        if channel is None or not channel.is_writable or not self._has_room or self.is_closed:
            return False
        self._enter(sending)
        sending.queue = queue
        sending.attempt = 1
        self._write(sending, queue, channel)
        return True

    @property
    def _has_room(self) -> bool:
        return len(self._open) < self._in_flight_max and self._bytes < self._bytes_max

    def _enter(self, sending: Sending) -> None:
        self._open.add(sending)
        self._bytes += len(sending.body)
        if self._sweeping is None:
            self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)

    def _write(self, sending: Sending, queue: MessageQueue, channel: Channel) -> None:
        sending.channel = channel
        sending.opaque = opaque = channel.next_opaque()
        template = self._templates.get((sending.kind, queue)) or self._template(sending.kind, queue)
        body = sending.body
        head = template.fill(opaque, sending.sys_flag, sending.born_ms, sending.flag, sending.properties, body)
        channel.ask(opaque, sending, head, body)

    def _template(self, kind: Kind, queue: MessageQueue) -> SendTemplate | SignedSends:
        if len(self._templates) >= TEMPLATES_MAX:
            self._templates.clear()
        credentials = self.instance.options.credentials
        make = SendTemplate if credentials is None else functools.partial(SignedSends, credentials)
        made = self._templates[kind, queue] = make(
            kind,
            producer_group=self.group,
            topic=queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=self._new_queues,
            queue_id=queue.queue_id,
            batch=kind is BATCH,
            broker_name=queue.broker_name,
        )
        return made

    async def post_one_way(self, sending: Sending) -> None:
        """Write a message and hope."""
        queue = sending.queue or self.choice.choose(await self.queues(sending.topic), self.loop.time())
        channel = await self.instance.channel(queue.broker_name or "")
        await channel.writable()
        template = self._templates.get((sending.kind, queue)) or self._template(sending.kind, queue)
        head = template.fill_one_way(
            channel.next_opaque(),
            sending.sys_flag,
            sending.born_ms,
            sending.flag,
            sending.properties,
            sending.body,
        )
        channel.send(head, sending.body)
        self.sent += 1
        for hook in self.hooks:
            hook.sent(sending, None)

    async def _room(self) -> None:
        while not self.is_closed and not self._has_room:
            waiting: asyncio.Future[None] = self.loop.create_future()
            self._waiting_for_room.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self._wake()  # the place that was meant for us is another's
                raise

    def _wake(self) -> None:
        while self._waiting_for_room:
            waiting = self._waiting_for_room.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    # --- the way back

    def _close(self, sending: Sending) -> bool:
        """The send ends here; False if it had ended before."""
        if sending not in self._open:
            return False
        self._open.remove(sending)
        self._bytes -= len(sending.body)
        if self._waiting_for_room:
            self._wake()
        return True

    def answered(self, sending: Sending, answer: Command) -> None:
        status = STATUS.get(answer.code)
        queue = sending.queue
        assert queue is not None
        broker_name = queue.broker_name or ""
        if status is None:
            self._refused(sending, answer, broker_name)
            return
        self._close(sending)
        sending.answer = answer
        self.sent += 1
        if self.choice.is_curious:
            self.choice.answered(broker_name, self.loop.time() - sending.started)
        ext = answer.ext
        receipt = Receipt(
            sending.unique_key,
            sending.topic,
            broker_name,
            int(ext.get("queueId") or queue.queue_id),
            int(ext.get("queueOffset") or 0),
            ext.get("msgId", ""),
            status,
            ext.get("transactionId"),
            ext.get("recallHandle"),
        )
        sending.end(receipt)

    def _refused(self, sending: Sending, answer: Command, broker_name: str) -> None:
        why = reason(answer)
        if answer.code == GO_AWAY and sending.channel is not None:
            self.instance.go_away(broker_name, sending.channel)
            sending.attempt -= 1  # it was not tried
        if answer.code in AGAIN:
            self._again(sending, why, answer.code)
        else:
            self._give_up(sending, why, answer.code)

    def failed(self, sending: Sending, lost: CometError) -> None:
        """No answer will come on this connection."""
        self._again(sending, str(lost), None)

    def _again(self, sending: Sending, why: str, code: int | None) -> None:
        if sending not in self._open:
            return
        queue = sending.queue
        if queue is not None:
            self.choice.failed(queue.broker_name or "", self.loop.time())
        out_of_time = self.loop.time() >= sending.until
        if sending.future.done() or self.is_closed or out_of_time or sending.attempt >= sending.attempts:
            self._give_up(sending, why, code)
            return
        self.retried += 1
        self.instance.spawn(self._retry(sending, code), "send again")

    async def _retry(self, sending: Sending, code: int | None) -> None:
        try:
            if code in PAUSE:
                await asyncio.sleep(PAUSE_S)
            elif code is None or code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION):
                with contextlib.suppress(CometError):  # what is known of the route must do
                    await self.instance.writable_queues(sending.topic, refresh=True, new_queues=self._new_queues)
            await self._go_slowly(sending)
        except asyncio.CancelledError:
            self._give_up(sending, "the producer was closed", None)
            raise
        except Exception as fault:  # of ours: nobody may wait for ever because of it
            self._give_up(sending, f"{type(fault).__name__}: {fault}", None)
            raise

    async def _go_slowly(self, sending: Sending) -> None:
        """Find a queue and a connection, whatever it takes; ends with the send written, or given up."""
        why = "no attempt was made"
        try:
            while not sending.future.done():
                failed_on = sending.queue.broker_name if sending.queue is not None and sending.attempt else None
                sending.attempt += 1
                try:
                    queue = sending.pinned
                    if queue is None:
                        queues = await self.queues(sending.topic)
                        queue = self.choice.choose(queues, self.loop.time(), failed_on)
                    sending.queue = queue
                    async with asyncio.timeout_at(sending.until):
                        channel = await self.instance.channel(queue.broker_name or "")
                        await channel.writable()
                    sending.attempt_until = self._attempt_until(sending)
                    if not sending.future.done():
                        self._write(sending, queue, channel)
                        return
                except TimeoutError:
                    why = f"{why}; the time is up"
                    break
                except PeerError as fault:
                    why = str(fault)
                    if sending.queue is not None:
                        self.choice.failed(sending.queue.broker_name or "", self.loop.time())
                    if sending.attempt >= sending.attempts or self.loop.time() >= sending.until:
                        break
        except CometError as fault:
            self._close(sending)
            self.given_up += 1
            sending.end(fault)
            return
        self._give_up(sending, why, None)

    def _attempt_until(self, sending: Sending) -> float:
        """An attempt that others may follow gets half of the time that is left."""
        now = self.loop.time()
        may_follow = sending.attempt < sending.attempts and len(self.instance.routes.brokers) > 1
        return now + (sending.until - now) / 2 if may_follow and sending.pinned is None else sending.until

    def _give_up(self, sending: Sending, why: str, code: int | None) -> None:
        if not self._close(sending):
            return
        self.given_up += 1
        broker = sending.queue.broker_name if sending.queue is not None else None
        sending.end(SendFailed(sending.topic, broker, max(sending.attempt, 1), why, code=code))

    # --- time, and the end

    def _sweep(self) -> None:
        self._sweeping = None
        now = self.loop.time()
        for sending in list(self._open):
            if sending.future.done():  # who waited is gone
                self._drop(sending)
                self._give_up(sending, "it was cancelled by the program", None)
            elif now >= sending.attempt_until and sending.channel is not None and sending.opaque:
                peer = sending.channel.peer
                self._drop(sending)
                self.failed(sending, PeerTimeout(f"{peer} did not answer in time; it may have stored the message"))
        if self._open:
            self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)

    def _drop(self, sending: Sending) -> None:
        if sending.channel is not None:
            sending.channel.forget(sending.opaque)
            sending.channel, sending.opaque = None, 0

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything that is under way has ended, one way or the other."""
        while under_way := [sending.future for sending in self._open if not sending.future.done()]:
            _, late = await asyncio.wait(under_way, timeout=timeout_s)
            if late:
                return

    async def close(self, timeout_s: float) -> None:
        """Let what is under way end, and give up what has not in time."""
        self.is_closed = True
        while self._waiting_for_room:
            self._wake()
        await self.flush(timeout_s)
        for sending in list(self._open):
            self._drop(sending)
            self._give_up(sending, "the producer was closed before an answer came", None)
        if self._sweeping is not None:
            self._sweeping.cancel()
