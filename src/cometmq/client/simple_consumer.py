"""The simple consumer: takes messages one by one, acknowledges them one by one; the broker keeps the books.

    async with SimpleConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
        async for message in consumer.receive("orders", tags="created"):
            await message.ack()

A message that is handed out is invisible to the others of its group for a while; if it is not acknowledged by then it
comes again, to anyone of them. There are no queues to balance: any number of consumers may share a topic.

At most `in_flight` messages are handed out and not acknowledged; who asks for more waits. `receive` may be cancelled
at any point: what it had not handed out yet is there for the next `receive` of the same kind, or comes again.

Mirrors: SimpleConsumer (of the 5.x clients), DefaultMQPushConsumerImpl.ackAsync, changePopInvisibleTimeAsync.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, Unpack

from cometmq.client.acknowledging import Acknowledger
from cometmq.client.instance import ClientInstance
from cometmq.client.message import ReceivedMessage, check_group
from cometmq.client.offset_store import StartFrom, start_of
from cometmq.client.options import ClientOptions, MoreOptions, check_numbers
from cometmq.client.popping import COUNT_MAX, POLL_S_MAX, Popped, Pops, Wish
from cometmq.client.receive_watch import ReceiveWatch
from cometmq.client.trace_lines import Outcome
from cometmq.client.wanted import subscription
from cometmq.errors import ClientClosed, ClientError, CometError, InvalidArgument
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import SubscriptionData
from cometmq.wire.bodies.heartbeat import ConsumerData
from cometmq.wire.receipt import Handle
from cometmq.wire.requests.pop import ChangeInvisibleTime, ChangeInvisibleTimeReply

log = logging.getLogger("cometmq.client")

IN_FLIGHT_MAX: Final = 4096
KINDS_MAX: Final = 256  # of receives: topic, filter, invisible time
FAULT_PAUSE_S: Final = 1.0
HAND_BACK: Final = timedelta(seconds=1)  # what is left at closing is seen by others after this
_CONSUME_POP: Final = "CONSUME_POP"
_FROM_FIRST, _FROM_LAST = 0, 1


class SimpleConsumer:
    """Receives without being given queues. A group that is new to a topic begins at its `first` or `last` message."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        in_flight: int = IN_FLIGHT_MAX,
        start_from: StartFrom | str = StartFrom.LAST,
        trace: bool = False,
        spans: bool = False,
        client_id: str | None = None,
        **options: Unpack[MoreOptions],
    ) -> None:
        """`trace` tells the trace topic of what was received and acknowledged, `spans` OpenTelemetry. Further `options`
        are those of `ClientOptions`.
        """
        self.group = check_group(group)
        self._watch = ReceiveWatch(group, trace=trace, spans=spans) if trace or spans else None
        self._options = ClientOptions.of(namesrv, client_id=client_id, **options)
        check_numbers(in_flight=in_flight)
        start = start_of(start_from)
        if not isinstance(start, StartFrom):
            raise InvalidArgument(
                "a SimpleConsumer starts from 'first' or 'last', not from a time; move its group instead"
            )
        self._in_flight_max = in_flight
        self._init_mode = _FROM_FIRST if start is StartFrom.FIRST else _FROM_LAST
        self._instance: ClientInstance | None = None
        self._acknowledger: Acknowledger | None = None
        self._is_closed = False
        self._pops: dict[tuple[Any, ...], Pops] = {}
        self._out: dict[Popped, None] = {}
        self._room: asyncio.Future[None] | None = None
        self._counts = {"received": 0, "acknowledged": 0}

    # --- coming and going

    async def start(self) -> Self:
        """What `async with` does on entering."""
        if self._instance is not None:
            raise ClientClosed("the consumer is open already, or was; make a new one")
        self._instance = await ClientInstance.join(self._options, apart_from=self.group)
        self._acknowledger = Acknowledger(self._instance, self.group)
        try:
            if self._watch is not None:
                await self._watch.start(self._options)
            await self._instance.add_consumer(self)
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Send what is acknowledged, hand back what waits here, close; bounded in time, harmless twice."""
        instance, acknowledger = self._instance, self._acknowledger
        if instance is None or acknowledger is None or self._is_closed:
            return
        self._is_closed = True
        timeout_s = self._options.close_timeout_s
        await acknowledger.close(timeout_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*[pops.leave() for pops in self._pops.values()])
        if self._watch is not None:
            await self._watch.close()
        await instance.remove_consumer(self)
        await instance.leave()

    async def hand_back(self, some: list[Popped]) -> None:
        """Let others have these soon; what fails comes again in its own time."""
        if self._instance is not None:
            backs = [self._change(self._instance, one, HAND_BACK) for one in {one.parcel: one for one in some}.values()]
            await asyncio.gather(*backs, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _open(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed("the consumer is not open: use `async with SimpleConsumer(…) as consumer`")
        if self._is_closed:
            raise ClientClosed("the consumer is closed; make a new one")
        self._instance.check_open("the consumer")
        return self._instance

    @property
    def in_flight(self) -> int:
        """How many messages are handed out, not acknowledged, and invisible to others."""
        self._forget_late()
        return len(self._out)

    @property
    def counters(self) -> dict[str, int]:
        """How many messages were received and acknowledged, and are in flight."""
        return {**self._counts, "in_flight": len(self._out)}

    # --- receiving

    async def receive(
        self,
        topic: str,
        *,
        tags: str | Sequence[str] | None = None,
        sql: str | None = None,
        max_messages: int = COUNT_MAX,
        invisible: timedelta = timedelta(seconds=30),
        wait: timedelta | None = None,
        in_order: bool = False,
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Messages as they come, `max_messages` asked for at a time.

        Goes on for ever, over lost connections too; with `wait` it ends when nothing came for so long.
        """
        level = logging.WARNING  # once per outage
        while True:
            since_ns = self._watch.now_ns() if self._watch is not None else 0
            patience = timedelta(seconds=POLL_S_MAX) if wait is None else wait
            try:
                pops = await self._pops_of(topic, tags, sql, invisible, in_order)
                popped = await self._next(pops, max_messages, patience)
            except CometError as fault:
                if wait is not None or not fault.retriable:
                    raise
                log.log(level, "group %s receives nothing of %s for now, and tries on: %s", self.group, topic, fault)
                level = logging.INFO
                await asyncio.sleep(FAULT_PAUSE_S)
                continue
            level = logging.WARNING
            if popped is not None:
                if self._watch is not None:
                    self._watch.given([popped.message], since_ns)
                yield popped.message
            elif wait is not None:
                return

    async def pop(
        self,
        topic: str,
        *,
        tags: str | Sequence[str] | None = None,
        sql: str | None = None,
        max_messages: int = COUNT_MAX,
        invisible: timedelta = timedelta(seconds=30),
        wait: timedelta = timedelta(seconds=POLL_S_MAX),
        in_order: bool = False,
    ) -> list[ReceivedMessage]:
        """Up to `max_messages` at once; empty if none came within `wait`."""
        since_ns = self._watch.now_ns() if self._watch is not None else 0
        pops = await self._pops_of(topic, tags, sql, invisible, in_order)
        popped = await self._next(pops, max_messages, wait)
        found: list[ReceivedMessage] = []
        while popped is not None:
            found.append(popped.message)
            if len(found) >= max_messages or len(self._out) >= self._in_flight_max:
                break
            popped = self._handed_out(pops.take())
        if self._watch is not None:
            self._watch.given(found, since_ns)
        return found

    async def _pops_of(
        self, topic: str, tags: str | Sequence[str] | None, sql: str | None, invisible: timedelta, in_order: bool
    ) -> Pops:
        instance = self._open()
        key = topic, tags if tags is None or isinstance(tags, str) else tuple(tags), sql, invisible, in_order
        found = self._pops.get(key)
        if found is not None and instance.readable_queues(topic):
            return found
        wanted = subscription(topic, tags, sql)
        await instance.route(topic)
        if found is not None:
            return found
        for idle in [one for one, pops in self._pops.items() if pops.is_idle]:
            if len(self._pops) < KINDS_MAX:
                break
            del self._pops[idle]
        if len(self._pops) >= KINDS_MAX:
            raise ClientError(f"{KINDS_MAX} kinds of receive are under way in this consumer, the most it may have")
        wish = Wish(wanted, _milliseconds(invisible), in_order, self._init_mode)
        found = self._pops.setdefault(key, Pops(instance, self.group, wish, self))
        instance.heartbeat_soon()
        return found

    async def _next(self, pops: Pops, max_messages: int, wait: timedelta) -> Popped | None:
        """The next message, handed out; None if none comes within `wait`."""
        check_numbers(max_messages=max_messages)
        if wait < timedelta(0):
            raise InvalidArgument("wait may not be negative")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait.total_seconds()
        if not await self._wait_for_room(until_s):
            return None
        asked: set[asyncio.Task[None]] = set()
        is_first = True
        while True:
            instance = self._open()
            popped = pops.take()
            if popped is not None:
                return self._handed_out(popped)
            pops.check()
            left_s = until_s - loop.time()
            if left_s > 0 or is_first:
                asked.update(pops.ask(max_messages, max(left_s, 0.0)))
                is_first = False
            asked = {task for task in asked if not task.done()}
            if (
                left_s <= 0 and not asked
            ):  # pops of earlier receives may be under way; the next one gets what they bring
                pops.give_up()
                return None
            if pops.is_asking:
                # Whoever was asked for no longer than `wait` answers about then: worth the moment.
                await pops.news(left_s if left_s > 0 else instance.options.request_timeout_ms / 1000)
            else:
                await asyncio.sleep(min(pops.pause_s(), left_s))
            await self._drop_unwanted(pops)

    def _handed_out(self, popped: Popped | None) -> Popped | None:
        if popped is not None:
            self._out[popped] = None
            self._counts["received"] += 1
            if self._watch is not None:
                popped.hearing = self._watch.before(popped.message)
        return popped

    async def _drop_unwanted(self, pops: Pops) -> None:
        """Acknowledge what has only the hash of a wanted tag, so that it does not come again."""
        unwanted, pops.unwanted = pops.unwanted, []
        for popped in unwanted:
            with suppress(CometError):
                await self.ack_popped(popped)

    async def _wait_for_room(self, until_s: float) -> bool:
        loop = asyncio.get_running_loop()
        while len(self._out) >= self._in_flight_max:
            self._forget_late()
            if len(self._out) < self._in_flight_max:
                break
            left_s = until_s - loop.time()
            if left_s <= 0:
                return False
            late_s = min(popped.parcel.until_s for popped in self._out) - loop.time()
            if self._room is None or self._room.done():
                self._room = loop.create_future()
            await asyncio.wait([self._room], timeout=max(0.0, min(left_s, late_s)) + 0.001)
            self._open()
        return True

    def _forget_late(self) -> None:
        """What became visible again is no longer in flight here."""
        if self._out:
            now = asyncio.get_running_loop().time()
            for popped in [one for one in self._out if one.parcel.until_s <= now]:
                del self._out[popped]
                self._heard(popped, Outcome.TIME_OUT)

    def _heard(self, popped: Popped, outcome: Outcome) -> None:
        hearing, popped.hearing = popped.hearing, None
        if self._watch is not None:
            self._watch.after(hearing, outcome)

    def _settled(self, popped: Popped) -> None:
        self._out.pop(popped, None)
        self._heard(popped, Outcome.SUCCESS)
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    # --- acknowledging

    async def ack(self, message: ReceivedMessage) -> None:
        """Done with it: it will not come again. The same as `message.ack()`."""
        await self.ack_popped(self._popped(message))

    async def ack_all(self, messages: Iterable[ReceivedMessage]) -> None:
        """Acknowledge many in few requests."""
        await asyncio.gather(*[self.ack_popped(self._popped(message)) for message in messages])

    async def change_invisible(self, message: ReceivedMessage, duration: timedelta) -> None:
        """Let it come again `duration` from now, unless it is acknowledged before."""
        await self.change_popped(self._popped(message), duration)

    def _popped(self, message: ReceivedMessage) -> Popped:
        popped = message.deliverer
        if not isinstance(popped, Popped):
            raise ClientError(f"{message} was not received by a SimpleConsumer")
        return popped

    async def ack_popped(self, popped: Popped) -> None:
        self._open()
        if popped.is_done or self._acknowledger is None:
            return
        if popped.parcel.left <= 1:  # else it is told with the last of its batch
            await self._acknowledger.ack(popped.message.topic, popped.parcel.handle)
        popped.parcel.left -= 1
        popped.is_done = True
        self._counts["acknowledged"] += 1
        self._settled(popped)

    async def change_popped(self, popped: Popped, duration: timedelta) -> None:
        instance = self._open()
        if popped.is_done:
            raise ClientError(f"{popped.message} is acknowledged; it does not come again")
        await self._change(instance, popped, duration)

    async def _change(self, instance: ClientInstance, popped: Popped, duration: timedelta) -> None:
        handle = popped.parcel.handle
        topic = handle.topic(popped.message.topic, self.group)
        request = ChangeInvisibleTime(
            topic, self.group, handle.queue_id, handle.render(), handle.queue_offset, _milliseconds(duration)
        )
        answer = await instance.call(handle.broker_name, request)
        reply = ChangeInvisibleTimeReply.read(answer.ext)
        popped.parcel.handle = Handle(
            handle.queue_offset,
            reply.pop_time,
            reply.invisible_time,
            reply.revive_qid,
            handle.mark,
            handle.broker_name,
            handle.queue_id,
            handle.queue_offset,
        )
        popped.parcel.until_s = asyncio.get_running_loop().time() + duration.total_seconds()

    # --- what the instance asks (members.py)

    def _subscriptions(self) -> list[SubscriptionData]:
        return list({pops.wish.wanted.topic: pops.wish.wanted for pops in self._pops.values()}.values())

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(self.group, consume_type=_CONSUME_POP, subscriptions=self._subscriptions())

    def members_changed(self) -> None:
        """Nothing to balance."""

    def route_changed(self, topic: str) -> None:
        """The next pop asks the brokers of the new route."""

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """The broker moves the group by itself; what waits here is of before."""
        for pops in self._pops.values():
            if pops.wish.wanted.topic == topic:
                list(pops.take_all())

    def consumed_offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {}

    def running_info(self) -> dict[str, Any]:
        return {
            "properties": {"PROP_CONSUME_TYPE": _CONSUME_POP, "PROP_CLIENT_VERSION": "cometmq"},
            "subscriptionSet": [item.to_json() for item in self._subscriptions()],
        }

    async def consume_directly(self, message: ReceivedMessage) -> dict[str, Any]:
        return {"consumeResult": "CR_THROW_EXCEPTION", "remark": "a simple consumer has no listener"}


def _milliseconds(duration: timedelta) -> int:
    milliseconds = int(duration / timedelta(milliseconds=1))
    if milliseconds < 1:
        raise InvalidArgument(f"the invisible time is {duration}; it must be at least a millisecond")
    return milliseconds
