"""The lite pull consumer: the program asks for messages when it wants them, and says where to read and what is done.

    async with LitePullConsumer("reports", namesrv="127.0.0.1:9876") as consumer:
        await consumer.subscribe("orders", tags="paid")     # or `assign` some of `await consumer.queues("orders")`
        for message in await consumer.poll(): ...

Queues are read ahead of the program, within `buffered` messages and `buffered_bytes` each. The position of a queue is
the offset of the next message that `poll` gives. With `auto_commit` a message is committed some time after the poll
that follows the one which gave it, or when the consumer is closed without an error; else when `commit` is called.
Invariant: no offset is committed behind which a message lies that was never given, or (auto) is still being worked on.

Mirrors: DefaultLitePullConsumer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

from cometmq.client.instance import ClientInstance
from cometmq.client.listeners import Subscription
from cometmq.client.message import ReceivedMessage, check_group, check_topic
from cometmq.client.offset_store import FROM_TIME, BrokerOffsets, StartFrom, start_of
from cometmq.client.options import ClientOptions
from cometmq.client.process_queue import QueueLimits
from cometmq.client.read_ahead import ReadAhead
from cometmq.client.rebalance import AssignmentStrategy, strategy_of
from cometmq.client.rebalance import assign as share_of
from cometmq.client.wanted import subscription
from cometmq.errors import ClientClosed, ClientError, CometError, InvalidArgument, PeerRefused
from cometmq.model.queue import MessageQueue
from cometmq.wire.bodies.heartbeat import CONSUME_ACTIVELY, ConsumerData
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import GetMaxOffset, GetMinOffset, OffsetReply, QueryConsumerOffset, SearchOffset
from cometmq.wire.schema import Header

log = logging.getLogger("cometmq.client")

BALANCE_S: Final = 20.0
BALANCE_RETRY_S: Final = 1.0


class LitePullConsumer:
    """See the module. Either `subscribe` to topics, whose queues the group divides, or `assign` queues."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        auto_commit: bool = True,
        auto_commit_interval: timedelta = timedelta(seconds=5),
        start_from: StartFrom | datetime | str = StartFrom.LAST,
        strategy: AssignmentStrategy | str = "AVG",
        buffered: int = 1000,
        buffered_bytes: int = 100 * 1024 * 1024,
        pull_batch: int = 32,
        client_id: str | None = None,
        **options: Any,
    ) -> None:
        """Further `options` are those of `ClientOptions`."""
        self.group = check_group(group)
        self._options = ClientOptions.of(namesrv, client_id=client_id, **options)
        for name, value in (("buffered", buffered), ("buffered_bytes", buffered_bytes), ("pull_batch", pull_batch)):
            if value < 1:
                raise InvalidArgument(f"{name} is {value}; it must be at least 1")
        if auto_commit_interval <= timedelta(0):
            raise InvalidArgument("auto_commit_interval must be more than 0")
        self._auto_commit = auto_commit
        self._commit_interval_s = auto_commit_interval.total_seconds()
        self._start = start_of(start_from)
        self._strategy = strategy_of(strategy)
        self._limits = QueueLimits(buffered, buffered_bytes)
        self._pull_batch = pull_batch
        self._subscriptions: dict[str, Subscription] = {}
        self._is_assigned = False  # by the program
        self._instance: ClientInstance | None = None
        self._store: BrokerOffsets | None = None
        self._ahead: ReadAhead | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._balance_due = asyncio.Event()
        self._balancing = asyncio.Lock()
        self._committed: dict[MessageQueue, int] = {}
        self._is_closed = False

    # --- coming and going

    async def start(self) -> Self:
        """What `async with` does on entering."""
        if self._instance is not None:
            raise ClientClosed("the consumer is open already, or was; make a new one")
        self._instance = instance = await ClientInstance.join(self._options, apart_from=self.group)
        self._store = BrokerOffsets(instance, self.group)
        self._ahead = ReadAhead(
            instance, self.group, self._store, self._subscriptions.get, self._start, self._limits, self._pull_batch
        )
        try:
            await instance.add_consumer(self)
        except BaseException:
            await self._close(all_is_done=False)
            raise
        self._tasks.append(instance.spawn(self._balance_regularly(), f"balance of {self.group}"))
        if self._auto_commit:
            self._tasks.append(instance.spawn(self._commit_regularly(), f"commits of {self.group}"))
        return self

    async def close(self) -> None:
        """Commit (with `auto_commit`, all that was given), let others take over, close; bounded, harmless twice."""
        await self._close(all_is_done=True)

    async def _close(self, *, all_is_done: bool) -> None:
        instance, ahead = self._instance, self._ahead
        if instance is None or ahead is None or self._is_closed:
            return
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        if self._auto_commit:
            if all_is_done:
                ahead.settle()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.close_timeout_s):
                    await self._save(ahead.done)
        await ahead.close()
        await instance.remove_consumer(self)
        await instance.leave()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(all_is_done=error is None)

    def _open(self) -> tuple[ClientInstance, ReadAhead]:
        if self._instance is None or self._ahead is None:
            raise ClientClosed("the consumer is not open: use `async with LitePullConsumer(…) as consumer`")
        if self._is_closed:
            raise ClientClosed("the consumer is closed; make a new one")
        self._instance.check_open("the consumer")
        return self._instance, self._ahead

    # --- what is read

    async def subscribe(self, topic: str, *, tags: str | Sequence[str] | None = None, sql: str | None = None) -> None:
        """Read a topic, as one of the group; returns when this member's queues are known."""
        instance, _ = self._open()
        if self._is_assigned:
            raise ClientError("queues are assigned to this consumer; it cannot subscribe too")
        wanted = subscription(topic, tags, sql)
        await instance.route(topic)
        self._subscriptions[topic] = Subscription(wanted, None)
        await instance.heartbeat_now()
        await self._balance()

    async def unsubscribe(self, topic: str) -> None:
        """Read it no more."""
        instance, _ = self._open()
        if self._subscriptions.pop(topic, None) is not None:
            await instance.heartbeat_now()
            await self._balance()

    async def assign(
        self, queues: Iterable[MessageQueue], *, tags: str | Sequence[str] | None = None, sql: str | None = None
    ) -> None:
        """Read exactly these queues, whatever others of the group read."""
        instance, _ = self._open()
        if self._subscriptions and not self._is_assigned:
            raise ClientError("this consumer has subscribed to topics; queues cannot be assigned to it too")
        wanted_queues = set(queues)
        for topic in {str(queue.topic) for queue in wanted_queues}:
            wanted = subscription(topic, tags, sql)
            await instance.route(topic)
            self._subscriptions[topic] = Subscription(wanted, None)
            for queue in wanted_queues - set(instance.readable_queues(topic)):
                if queue.topic == topic:
                    raise InvalidArgument(f"{queue} is no queue of {topic} that can be read")
        self._is_assigned = True
        for topic in self._subscriptions.keys() - {queue.topic for queue in wanted_queues}:
            del self._subscriptions[topic]
        await instance.heartbeat_now()
        async with self._balancing:
            await self._take_over(wanted_queues)

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return frozenset(self._ahead.queues) if self._ahead is not None else frozenset()

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """All queues of a topic."""
        instance, _ = self._open()
        await instance.route(check_topic(topic))
        return instance.readable_queues(topic)

    async def poll(self, wait: timedelta = timedelta(seconds=5), *, max_messages: int = 32) -> list[ReceivedMessage]:
        """The next messages of any queue that is not paused; empty if none come within `wait`.

        What earlier polls gave is done with this.
        """
        _, ahead = self._open()
        if max_messages < 1:
            raise InvalidArgument(f"max_messages is {max_messages}; it must be at least 1")
        if wait < timedelta(0):
            raise InvalidArgument("wait may not be negative")
        ahead.settle()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait.total_seconds()
        while True:
            found = ahead.take(max_messages)
            if found:
                return found
            left_s = until_s - loop.time()
            if left_s <= 0:
                return found
            await ahead.news(left_s)
            self._open()

    async def messages(self, *, max_messages: int = 32) -> AsyncGenerator[ReceivedMessage, None]:
        """Messages as they come, for ever."""
        while True:
            for message in await self.poll(max_messages=max_messages):
                yield message

    def pause(self, *queues: MessageQueue) -> None:
        """Give no messages of these queues (of all, if none is named) until `resume`."""
        _, ahead = self._open()
        ahead.pause(queues or ahead.queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with these queues (with all, if none is named)."""
        _, ahead = self._open()
        ahead.resume(queues or ahead.queues)

    # --- where it is read

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that `poll` gives of a queue."""
        return self._open()[1].position(queue)

    @property
    def positions(self) -> dict[MessageQueue, int]:
        """Of all queues that are read."""
        _, ahead = self._open()
        return {queue: ahead.position(queue) for queue in ahead.queues}

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on with another offset of a queue."""
        _, ahead = self._open()
        ahead.position(queue)
        low, high = await self.beginning(queue), await self.end(queue)
        if not low <= offset <= high:
            raise InvalidArgument(f"{queue} has no offset {offset}; it goes from {low} to {high}")
        await ahead.seek(queue, offset)

    async def seek_to_beginning(self, *queues: MessageQueue) -> None:
        """Go back to the first message of these queues (of all, if none is named)."""
        _, ahead = self._open()
        for queue in queues or tuple(ahead.queues):
            await ahead.seek(queue, await self.beginning(queue))

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on behind the last message of these queues (of all, if none is named)."""
        _, ahead = self._open()
        for queue in queues or tuple(ahead.queues):
            await ahead.seek(queue, await self.end(queue))

    async def beginning(self, queue: MessageQueue) -> int:
        """The first offset of a queue."""
        return await self._offset(queue, GetMinOffset(str(queue.topic), queue.queue_id))

    async def end(self, queue: MessageQueue) -> int:
        """The offset that the next message of a queue will have."""
        return await self._offset(queue, GetMaxOffset(str(queue.topic), queue.queue_id))

    async def offset_for_time(self, queue: MessageQueue, time: datetime) -> int:
        """The offset of the first message stored at `time` or later."""
        if not isinstance(time, datetime) or time.tzinfo is None:
            raise InvalidArgument("a datetime with a zone is needed, as datetime.now(UTC)")
        search = SearchOffset(str(queue.topic), queue.queue_id, int(time.timestamp() * 1000))
        return await self._offset(queue, search)

    async def _offset(self, queue: MessageQueue, request: Header) -> int:
        instance, _ = self._open()
        await instance.route(check_topic(str(queue.topic)))
        return OffsetReply.read((await instance.call(str(queue.broker_name), request)).ext).offset

    # --- how far it is done

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Tell the brokers how far the group is: these offsets, or all that was given so far. Raises if one fails."""
        _, ahead = self._open()
        if offsets is None:
            ahead.settle()
            offsets = ahead.done
        for queue, offset in offsets.items():
            if offset < 0:
                raise InvalidArgument(f"the offset {offset} of {queue} is negative")
        lost = await self._save(offsets)
        if lost:
            raise ClientError(f"the offsets of {len(lost)} queues were not committed, as of {next(iter(lost))}")

    async def committed(self, queue: MessageQueue) -> int | None:
        """How far the group is in a queue; None if it never was there."""
        instance, _ = self._open()
        await instance.route(check_topic(str(queue.topic)))
        # Asked without the field, brokers say 0 of a young queue where the group never was.
        request = QueryConsumerOffset(str(queue.topic), queue.queue_id, self.group, set_zero_if_not_found=False)
        answer = await instance.exchange(str(queue.broker_name), request, or_any=True)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "", f"broker {queue.broker_name}")
        return OffsetReply.read(answer.ext).offset

    async def _save(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Save what is not saved already; returns what failed."""
        news = {queue: offset for queue, offset in offsets.items() if self._committed.get(queue) != offset}
        assert self._store is not None
        kept = await self._store.save(news)
        for queue in kept:
            self._committed[queue] = news[queue]
        return news.keys() - kept

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._commit_interval_s)
            if self._ahead is not None:
                await self._save(dict(self._ahead.done))

    # --- balancing

    async def _balance_regularly(self) -> None:
        pause_s = BALANCE_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._balance_due.wait()
            self._balance_due.clear()
            pause_s = BALANCE_S
            try:
                await self._balance()
            except CometError as fault:
                log.info("group %s could not be balanced, trying again: %s", self.group, fault)
                pause_s = BALANCE_RETRY_S

    async def _balance(self) -> None:
        """Take this member's share of the subscribed topics; who can tell nothing keeps what he has."""
        instance, ahead = self._open()
        if self._is_assigned:
            return
        async with self._balancing:
            wanted: set[MessageQueue] = set()
            for topic in list(self._subscriptions):
                ids = await instance.consumer_ids(topic, self.group)
                share = share_of(self._strategy, instance.client_id, instance.readable_queues(topic), ids)
                if share is None:
                    share = [queue for queue in ahead.queues if queue.topic == topic]
                    self._balance_soon()
                wanted.update(share)
            await self._take_over(wanted)

    def _balance_soon(self) -> None:
        asyncio.get_running_loop().call_later(BALANCE_RETRY_S, self._balance_due.set)

    async def _take_over(self, wanted: set[MessageQueue]) -> None:
        _, ahead = self._open()
        lost = set(ahead.queues) - wanted
        done = {queue: ahead.done[queue] for queue in lost if queue in ahead.done}
        await ahead.drop(lost)
        if self._auto_commit and done:
            await self._save(done)
        for queue in lost:
            self._committed.pop(queue, None)
        for queue in wanted - set(ahead.queues):
            await ahead.add(queue)

    # --- what the instance asks (members.py)

    def consumer_data(self) -> ConsumerData:
        start = self._start.value if isinstance(self._start, StartFrom) else FROM_TIME
        return ConsumerData(
            self.group,
            consume_type=CONSUME_ACTIVELY,
            consume_from_where=start,
            subscriptions=[one.data for one in self._subscriptions.values()],
        )

    def members_changed(self) -> None:
        self._balance_due.set()

    def route_changed(self, topic: str) -> None:
        self._balance_due.set()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        _, ahead = self._open()
        for queue, offset in offsets.items():
            if queue in ahead.queues:
                await ahead.seek(queue, offset)
                await self._save({queue: offset})

    def consumed_offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {queue: offset for queue, offset in self.positions.items() if queue.topic == topic}

    def running_info(self) -> dict[str, Any]:
        return {
            "properties": {"PROP_CONSUME_TYPE": CONSUME_ACTIVELY, "PROP_CLIENT_VERSION": "cometmq"},
            "subscriptionSet": [one.data.to_json() for one in self._subscriptions.values()],
        }

    async def consume_directly(self, message: ReceivedMessage) -> dict[str, Any]:
        return {"consumeResult": "CR_THROW_EXCEPTION", "remark": "a lite pull consumer has no listener"}
