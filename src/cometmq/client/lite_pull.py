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
import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, Unpack

from cometmq.client.assignments import Assignments, counts
from cometmq.client.instance import ClientInstance
from cometmq.client.listeners import Subscription
from cometmq.client.message import ReceivedMessage, check_group, check_topic
from cometmq.client.offset_store import FROM_TIME, OffsetStore, StartFrom, start_of, store_of
from cometmq.client.options import ClientOptions, MoreOptions, check_numbers
from cometmq.client.process_queue import QueueLimits
from cometmq.client.read_ahead import ReadAhead
from cometmq.client.rebalance import AssignmentStrategy, strategy_of
from cometmq.client.receive_watch import ReceiveWatch
from cometmq.client.wanted import subscription
from cometmq.errors import ClientClosed, ClientError, InvalidArgument, PeerRefused
from cometmq.model.queue import MessageQueue
from cometmq.wire.bodies.heartbeat import BROADCASTING, CLUSTERING, CONSUME_ACTIVELY, ConsumerData
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import GetMaxOffset, GetMinOffset, OffsetReply, QueryConsumerOffset, SearchOffset
from cometmq.wire.schema import Header


class _Assignments(Assignments):
    """One look at a time: a program may subscribe while the regular one is under way."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._looking = asyncio.Lock()

    async def balance(self) -> bool:
        async with self._looking:
            return await super().balance()


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
        broadcasting: bool = False,
        offset_folder: str | os.PathLike[str] | None = None,
        buffered: int = 1000,
        buffered_bytes: int = 100 * 1024 * 1024,
        pull_batch: int = 32,
        trace: bool = False,
        spans: bool = False,
        client_id: str | None = None,
        **options: Unpack[MoreOptions],
    ) -> None:
        """`trace` tells the trace topic of what polls gave, `spans` OpenTelemetry. `broadcasting` and `offset_folder`
        are as of a `PushConsumer`, further `options` those of `ClientOptions`.
        """
        self.group = check_group(group)
        self._watch = ReceiveWatch(group, trace=trace, spans=spans) if trace or spans else None
        self._options = ClientOptions.of(namesrv, client_id=client_id, **options)
        check_numbers(buffered=buffered, buffered_bytes=buffered_bytes, pull_batch=pull_batch)
        if auto_commit_interval <= timedelta(0):
            raise InvalidArgument("auto_commit_interval must be more than 0")
        self._auto_commit = auto_commit
        self._commit_interval_s = auto_commit_interval.total_seconds()
        self._start = start_of(start_from)
        self._strategy = strategy_of(strategy)
        self._limits = QueueLimits(buffered, buffered_bytes)
        self._pull_batch = pull_batch
        self._is_broadcasting = broadcasting
        self._folder = offset_folder
        self._subscriptions: dict[str, Subscription] = {}
        self._is_assigned = False  # by the program
        self._is_balancing = False
        self._instance: ClientInstance | None = None
        self._store: OffsetStore | None = None
        self._ahead: ReadAhead | None = None
        self._assignments: Assignments | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False
        self._given = 0

    # --- coming and going

    async def start(self) -> Self:
        """What `async with` does on entering."""
        if self._instance is not None:
            raise ClientClosed("the consumer is open already, or was; make a new one")
        self._instance = instance = await ClientInstance.join(self._options, apart_from=self.group)
        self._store = store_of(
            instance, self.group, self._start, broadcasting=self._is_broadcasting, folder=self._folder
        )
        self._ahead = ReadAhead(
            instance,
            self.group,
            self._store,
            self._subscriptions.get,
            self._start,
            self._limits,
            self._pull_batch,
            commits_when_lost=self._auto_commit,
        )
        self._assignments = _Assignments(
            instance,
            self.group,
            lambda: list(self._subscriptions),
            self._ahead,
            self._strategy,
            takes_all=self._is_broadcasting,
            by_server=False,
        )
        try:
            if self._watch is not None:
                await self._watch.start(self._options)
            await instance.add_consumer(self)
        except BaseException:
            await self._close(all_is_done=False)
            raise
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
                    await ahead.save(ahead.done)
        ahead.close()
        if self._assignments is not None:
            await self._assignments.settle(self._options.close_timeout_s)
        if self._watch is not None:
            await self._watch.close()
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

    @property
    def counters(self) -> dict[str, int]:
        """How many messages polls gave, and how much is read ahead of how many queues."""
        return {"given": self._given, **counts(self._ahead.held if self._ahead is not None else {})}

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
        await self._balance(instance)

    async def _balance(self, instance: ClientInstance) -> None:
        assignments = self._assignments
        assert assignments is not None
        if not await assignments.balance():
            assignments.soon()
        if not self._is_balancing:
            self._is_balancing = True
            self._tasks.append(instance.spawn(assignments.run(), f"queues of {self.group}"))

    async def unsubscribe(self, topic: str) -> None:
        """Read it no more."""
        instance, _ = self._open()
        if self._subscriptions.pop(topic, None) is not None:
            await instance.heartbeat_now()
            await self._balance(instance)

    async def assign(
        self, queues: Iterable[MessageQueue], *, tags: str | Sequence[str] | None = None, sql: str | None = None
    ) -> None:
        """Read exactly these queues, whatever others of the group read."""
        instance, ahead = self._open()
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
        for queue in ahead.held.keys() - wanted_queues:
            holding = ahead.held.pop(queue)
            holding.stop()
            await ahead.let_go(queue, holding)
        for queue in sorted(wanted_queues - ahead.held.keys()):
            ahead.held[queue] = await ahead.take_up(queue)

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return frozenset(self._ahead.held) if self._ahead is not None else frozenset()

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
        check_numbers(max_messages=max_messages)
        if wait < timedelta(0):
            raise InvalidArgument("wait may not be negative")
        ahead.settle()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait.total_seconds()
        since_ns = self._watch.now_ns() if self._watch is not None else 0
        while True:
            found = ahead.take(max_messages)
            if found:
                if self._watch is not None:
                    self._watch.given(found, since_ns)
                    self._watch.polled(found)
                self._given += len(found)
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
        ahead.pause(queues or ahead.held)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with these queues (with all, if none is named)."""
        _, ahead = self._open()
        ahead.resume(queues or ahead.held)

    # --- where it is read

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that `poll` gives of a queue."""
        return self._open()[1].position(queue)

    @property
    def positions(self) -> dict[MessageQueue, int]:
        """Of all queues that are read."""
        return self._open()[1].positions()

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on with another offset of a queue."""
        _, ahead = self._open()
        ahead.position(queue)
        low, high = await self.beginning(queue), await self.end(queue)
        if not low <= offset <= high:
            raise InvalidArgument(f"{queue} has no offset {offset}; it goes from {low} to {high}")
        ahead.seek(queue, offset)

    async def seek_to_beginning(self, *queues: MessageQueue) -> None:
        """Go back to the first message of these queues (of all, if none is named)."""
        _, ahead = self._open()
        for queue in queues or tuple(ahead.held):
            ahead.seek(queue, await self.beginning(queue))

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on behind the last message of these queues (of all, if none is named)."""
        _, ahead = self._open()
        for queue in queues or tuple(ahead.held):
            ahead.seek(queue, await self.end(queue))

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
        lost = await ahead.save(offsets)
        if lost:
            raise ClientError(
                f"the offsets of {len(lost)} queues were not committed, as of {next(iter(lost))}; commit again"
            )

    async def committed(self, queue: MessageQueue) -> int | None:
        """How far the group is in a queue; None if it never was there."""
        instance, _ = self._open()
        await instance.route(check_topic(str(queue.topic)))
        if self._is_broadcasting and self._store is not None:
            return await self._store.read(queue)
        # Asked without the field, brokers say 0 of a young queue where the group never was.
        request = QueryConsumerOffset(str(queue.topic), queue.queue_id, self.group, set_zero_if_not_found=False)
        answer = await instance.exchange(str(queue.broker_name), request, or_any=True)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "", f"broker {queue.broker_name}")
        return OffsetReply.read(answer.ext).offset

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._commit_interval_s)
            if self._ahead is not None:
                await self._ahead.save(dict(self._ahead.done))

    # --- what the instance asks (members.py)

    def consumer_data(self) -> ConsumerData:
        start = self._start.value if isinstance(self._start, StartFrom) else FROM_TIME
        return ConsumerData(
            self.group,
            consume_type=CONSUME_ACTIVELY,
            message_model=BROADCASTING if self._is_broadcasting else CLUSTERING,
            consume_from_where=start,
            subscriptions=[one.data for one in self._subscriptions.values()],
        )

    def members_changed(self) -> None:
        if self._assignments is not None:
            self._assignments.soon()

    def route_changed(self, topic: str) -> None:
        self.members_changed()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        _, ahead = self._open()
        for queue, offset in offsets.items():
            if queue in ahead.held:
                ahead.seek(queue, offset)
                await ahead.save({queue: offset})

    def consumed_offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {queue: offset for queue, offset in self.positions.items() if queue.topic == topic}

    def running_info(self) -> dict[str, Any]:
        return {
            "properties": {"PROP_CONSUME_TYPE": CONSUME_ACTIVELY, "PROP_CLIENT_VERSION": "cometmq"},
            "subscriptionSet": [one.data.to_json() for one in self._subscriptions.values()],
        }

    async def consume_directly(self, message: ReceivedMessage) -> dict[str, Any]:
        return {"consumeResult": "CR_THROW_EXCEPTION", "remark": "a lite pull consumer has no listener"}
