"""The push consumer: messages come to functions of the program.

    consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")
    consumer.subscribe("orders", bill, tags="created || paid")
    async with consumer:
        await consumer.run()          # until it is cancelled or closed

A listener returns when a message is done with, and raises to get it again. Consumption is concurrent, or with
`orderly=True` one message of a queue after the other; clustering, where each message goes to one member of the group,
or broadcasting, where each goes to all. A stop waits for the listeners up to `stop_timeout_s`; what was not consumed is
left to whoever takes the queue next.

Who does what: `assignments` decides which queues are ours, a `pull_loop` fills each one's `process_queue`, the workers
of `listen_concurrent` or `listen_orderly` call the listeners, `held_queues` saves how far they are.

Mirrors: DefaultMQPushConsumer, DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, Unpack

from cometmq.client import consumer_info
from cometmq.client.acknowledging import Acknowledger
from cometmq.client.assignments import Assignments, counts
from cometmq.client.consuming import Consuming
from cometmq.client.held_queues import HeldQueues, Popping
from cometmq.client.instance import ClientInstance
from cometmq.client.listen_concurrent import ConcurrentConsuming
from cometmq.client.listen_orderly import OrderlyConsuming
from cometmq.client.listen_watch import ListenWatch, check_spans
from cometmq.client.listeners import BatchListener, Listener, OneListener, Subscription, subscription_data
from cometmq.client.message import ReceivedMessage, check_group
from cometmq.client.offset_store import FROM_TIME, StartFrom, start_of, store_of
from cometmq.client.options import ClientOptions, MoreOptions, check_numbers
from cometmq.client.process_queue import QueueLimits
from cometmq.client.pull_loop import PullSettings
from cometmq.client.pulled import first_sent
from cometmq.client.rebalance import AssignmentStrategy, Averagely, strategy_of
from cometmq.client.send_back import FOREVER, RECONSUME_TIMES_MAX, SendBack
from cometmq.errors import ClientClosed, InvalidArgument, TopicNotFound
from cometmq.model.names import RETRY_PREFIX
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import SubscriptionData
from cometmq.wire.bodies.heartbeat import BROADCASTING, CLUSTERING, ConsumerData

log = logging.getLogger("cometmq.client")


class PushConsumer:
    """See the module. `concurrency` listeners run at once; the limits are per queue and hold pulls back."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        broadcasting: bool = False,
        orderly: bool = False,
        concurrency: int = 20,
        start_from: StartFrom | datetime | str = StartFrom.LAST,
        max_reconsume_times: int | None = None,
        retry_delay_level: int = 0,
        suspend_queue: timedelta = timedelta(seconds=1),
        consume_timeout: timedelta = timedelta(minutes=15),
        stop_timeout_s: float = 10.0,
        pull_batch: int = 32,
        queue_messages: int = 1000,
        queue_bytes: int = 100 * 1024 * 1024,
        queue_span: int = 2000,
        strategy: AssignmentStrategy | str | None = None,
        server_assignment: bool = False,
        offset_folder: str | os.PathLike[str] | None = None,
        trace: bool = False,
        spans: bool = False,
        client_id: str | None = None,
        **options: Unpack[MoreOptions],
    ) -> None:
        """`suspend_queue` is the pause before an orderly retry; `trace` tells the trace topic of what was consumed,
        `spans` OpenTelemetry; further `options` are those of `ClientOptions`.

        Broadcasting keeps its offsets in `offset_folder`, under `client_id` or this machine's address.
        """
        self.group = check_group(group)
        self._options = ClientOptions.of(namesrv, client_id=client_id, **options)
        check_numbers(concurrency=concurrency, pull_batch=pull_batch)
        check_numbers(queue_messages=queue_messages, queue_bytes=queue_bytes, queue_span=queue_span)
        if max_reconsume_times is not None and max_reconsume_times < 0:
            raise InvalidArgument("max_reconsume_times may not be negative; None is the usual number")
        if consume_timeout <= timedelta(0) or suspend_queue < timedelta(0) or stop_timeout_s < 0:
            raise InvalidArgument("consume_timeout must be more than 0; suspend_queue and stop_timeout_s not negative")
        if orderly and server_assignment:
            raise InvalidArgument("orderly consumption divides its queues itself; leave server_assignment out")
        self.is_broadcasting = broadcasting
        self.is_orderly = orderly
        self.concurrency = concurrency
        self._start_from = start_of(start_from)
        self._times_max = max_reconsume_times
        self._delay_level = retry_delay_level
        self._pause_s = suspend_queue.total_seconds()
        self._timeout_s = consume_timeout.total_seconds()
        self._stop_timeout_s = stop_timeout_s
        self._limits = QueueLimits(queue_messages, queue_bytes, queue_span)
        self._pulling = PullSettings(group, pull_batch)
        self._strategy = strategy_of(strategy) if strategy is not None else Averagely()
        self._by_server = server_assignment
        self._folder = offset_folder
        self._traces = trace
        self._watch = ListenWatch(group, spans=spans) if trace or spans else None
        if spans:
            check_spans()
        self._retry_topic = RETRY_PREFIX + group
        self._subscriptions: dict[str, Subscription] = {}
        if not broadcasting:
            self._subscriptions[self._retry_topic] = Subscription(SubscriptionData(self._retry_topic), None)
        self._instance: ClientInstance | None = None
        self._closed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.start_time_ms = 0

    # --- what is consumed

    def subscribe(
        self,
        topic: str,
        listener: OneListener | BatchListener,
        *,
        tags: str | Sequence[str] | None = None,
        sql: str | None = None,
        batch: int | None = None,
    ) -> Self:
        """Let `listener` hear a topic, all of it or what `tags` or `sql` choose; also while the consumer runs.

        With `batch` the listener takes a list of up to so many messages.
        """
        data = subscription_data(topic, tags, sql)
        self._subscriptions[topic] = Subscription(data, Listener(listener, batch))
        self._subscriptions_changed()
        return self

    def unsubscribe(self, topic: str) -> None:
        """Hear no more of a topic."""
        if topic != self._retry_topic and self._subscriptions.pop(topic, None) is not None:
            self._subscriptions_changed()

    def _subscriptions_changed(self) -> None:
        if self._instance is not None and not self._closed.is_set():
            self._instance.heartbeat_soon()
            self._assignments.soon()

    def _listener_of(self, message: ReceivedMessage) -> Listener | None:
        found = self._subscriptions.get(message.topic)
        return None if found is None else found.listener

    # --- coming and going

    async def start(self) -> Self:
        """What `async with` does on entering: returns when the queues that are ours are being pulled from."""
        if self._instance is not None:
            raise ClientClosed("the consumer is open already, or was; make a new one")
        if not any(item.listener is not None for item in self._subscriptions.values()):
            raise InvalidArgument("the consumer is subscribed to nothing; call subscribe(topic, listener) first")
        self._instance = instance = await ClientInstance.join(self._options, apart_from=self.group)
        self.start_time_ms = int(time.time() * 1000)
        self._make_parts(instance)
        try:
            for topic in [topic for topic in self._subscriptions if topic != self._retry_topic]:
                try:
                    await instance.route(topic)
                except TopicNotFound as fault:
                    log.info("group %s: %s", self.group, fault)
            if self._traces and self._watch is not None:
                await self._watch.start_trace(self._options)
            await instance.add_consumer(self)
            self._consuming.start()
            self._tasks.append(instance.spawn(self._queues.save_now_and_then(), f"offsets of {self.group}"))
            if self._queues.locks is not None:
                self._tasks.append(instance.spawn(self._queues.locks.keep(), f"locks of {self.group}"))
            if not await self._assignments.balance():
                self._assignments.soon()
            self._tasks.append(instance.spawn(self._assignments.run(), f"queues of {self.group}"))
        except BaseException:
            await self.close()
            raise
        return self

    def _make_parts(self, instance: ClientInstance) -> None:
        group = self.group
        times_max = (
            self._times_max if self._times_max is not None else FOREVER if self.is_orderly else RECONSUME_TIMES_MAX
        )
        send_back = None if self.is_broadcasting else SendBack(instance, group, times_max)
        self._consuming: Consuming
        if self.is_orderly:
            self._consuming = OrderlyConsuming(
                instance,
                group,
                self._listener_of,
                send_back,
                concurrency=self.concurrency,
                timeout_s=self._timeout_s,
                reconsume_times_max=times_max,
                pause_s=self._pause_s,
                holds=lambda queue: self._queues.may_consume(queue),
            )
        else:
            self._consuming = ConcurrentConsuming(
                instance,
                group,
                self._listener_of,
                send_back,
                concurrency=self.concurrency,
                timeout_s=self._timeout_s,
                delay_level=self._delay_level,
            )
        self._consuming.watching = self._watch
        store = store_of(instance, group, self._start_from, broadcasting=self.is_broadcasting, folder=self._folder)
        self._acknowledger = Acknowledger(instance, group)
        self._queues = HeldQueues(
            instance,
            self._pulling,
            store,
            self._consuming,
            self._subscriptions.get,
            start_from=self._start_from,
            limits=self._limits,
            popping=Popping(self._acknowledger, send_back, times_max) if send_back is not None else None,
            is_locking=self.is_orderly and not self.is_broadcasting,
        )
        self._assignments = Assignments(
            instance,
            group,
            lambda: list(self._subscriptions),
            self._queues,
            self._strategy,
            takes_all=self.is_broadcasting,
            by_server=self._by_server and not self.is_broadcasting,
        )

    async def close(self) -> None:
        """Stop: let the listeners end, save how far they are, hand the rest back; bounded in time, harmless twice."""
        instance = self._instance
        if instance is None or self._closed.is_set():
            return
        self._closed.set()
        for task in self._tasks:
            task.cancel()
        self._queues.stop()
        timeout_s = instance.options.close_timeout_s
        try:
            if not await self._consuming.stop(self._stop_timeout_s):
                log.warning("group %s: listeners were cut off; what they had will come again", self.group)
            await self._assignments.settle(timeout_s)
            await self._queues.save()
            await self._acknowledger.close(timeout_s)
            await self._queues.hand_back()
            if self._watch is not None:
                await self._watch.close()
        finally:
            await instance.remove_consumer(self)
            await instance.leave()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self) -> None:
        """Consume until this is cancelled or the consumer is closed; starts and stops it if nobody else did."""
        if self._instance is None:
            async with self:
                await self._closed.wait()
        else:
            await self._closed.wait()

    def suspend(self) -> None:
        """Pull and hand out nothing more until `resume`; what a listener has it keeps."""
        self._open().suspend()
        self._queues.unsuspended.clear()

    def resume(self) -> None:
        self._open().resume()
        self._queues.unsuspended.set()

    def _open(self) -> Consuming:
        if self._instance is None or self._closed.is_set():
            raise ClientClosed("the consumer is not open: use `async with consumer`")
        self._instance.check_open("the consumer")
        return self._consuming

    @property
    def instance(self) -> ClientInstance:
        """The shared client below; for what this class does not offer."""
        return self._open().instance

    @property
    def counters(self) -> dict[str, int]:
        """How many messages were consumed, failed or took too long, and how much is held of how many queues."""
        if self._instance is None:
            return {"consumed": 0, "failed": 0, "timed_out": 0, **counts({})}
        consuming = self._consuming
        return {
            "consumed": consuming.consumed,
            "failed": consuming.failed,
            "timed_out": consuming.timed_out,
            **counts(self._queues.held),
        }

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now."""
        return [] if self._instance is None else sorted(self._queues.held)

    # --- what brokers ask (ConsumerMember)

    def consumer_data(self) -> ConsumerData:
        start = self._start_from
        return ConsumerData(
            self.group,
            message_model=BROADCASTING if self.is_broadcasting else CLUSTERING,
            consume_from_where=FROM_TIME if isinstance(start, datetime) else start.value,
            subscriptions=list(self.subscriptions()),
        )

    def subscriptions(self) -> Iterator[SubscriptionData]:
        return (item.data for item in self._subscriptions.values())

    def members_changed(self) -> None:
        self._assignments.soon()

    def route_changed(self, topic: str) -> None:
        if topic in self._subscriptions:
            self._assignments.soon()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        await self._queues.move(topic, offsets)

    def consumed_offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {queue: offset for queue, offset in self._queues.progress().items() if queue.topic == topic}

    def running_info(self) -> dict[str, Any]:
        return consumer_info.running_info(self, self._queues, self._options.namesrv)

    async def consume_directly(self, message: ReceivedMessage) -> dict[str, Any]:
        if message.record.topic == self._retry_topic:
            message = first_sent(message.record, message.broker_name)
        started = time.monotonic()
        fault = await self._consuming.consume_directly(message)
        return consumer_info.direct_result(fault, time.monotonic() - started, self.is_orderly)
