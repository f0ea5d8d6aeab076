"""One client of a cluster: its connections, routes, heartbeats and tasks, shared by the producers and consumers on it.

`ClientInstance.join` gives the one of this event loop, process, name servers and client id, or makes it; the last
that leaves closes it, and then no task, socket or timer of it is left. A group has one consumer per instance, as a
broker knows consumers by client id: a second one of the same group gets an instance of its own.

One task (`_upkeep`) sends heartbeats and refreshes routes; `spawn` is for everything else that runs. Both end with
the instance, within `close_timeout_s`. What a consumer does with it is written in `members.py`.

Mirrors: MQClientInstance, MQClientManager.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import weakref
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from cometmq.client.forking import GENERATION, check_process
from cometmq.client.heartbeats import Heartbeats
from cometmq.client.inbound import Inbound
from cometmq.client.members import ConsumerMember, ProducerMember
from cometmq.client.message import ReceivedMessage
from cometmq.client.name_server_calls import NameServerCalls
from cometmq.client.options import ClientOptions
from cometmq.client.route_cache import RouteCache
from cometmq.errors import BrokerUnreachable, ClientClosed, CometError, PeerRefused, PeerUnreachable, TopicNotFound
from cometmq.model.names import AUTO_CREATE_TOPIC
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, TopicRoute
from cometmq.net.channel import Channel
from cometmq.net.pool import Pool
from cometmq.net.routes import Routes
from cometmq.net.server import outward_ip
from cometmq.wire.bodies.heartbeat import HeartbeatData
from cometmq.wire.bodies.members import decode_consumer_ids
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Body, Command
from cometmq.wire.requests.members import GetConsumerListByGroup, UnregisterClient
from cometmq.wire.schema import Header

log = logging.getLogger("cometmq.client")

_T = TypeVar("_T")

RETRY_PAUSE_S: Final = 1.0  # between the loss of a connection and the attempt to make it again
TASKS_MAX: Final = 10_000
_SUCCESS: Final = int(ResponseCode.SUCCESS)

_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[ClientInstance]] = weakref.WeakKeyDictionary()
_numbers: Final = itertools.count(1)


class ClientInstance:
    """See the module. Make it with `join`."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.client_id = options.client_id or _new_client_id()
        self.routes = RouteCache()
        self.consumers: dict[str, ConsumerMember] = {}
        self.producers: dict[str, list[ProducerMember]] = {}
        self.replies: dict[str, asyncio.Future[ReceivedMessage]] = {}
        self.users = 0
        self.generation = GENERATION.number
        self.is_closed = False
        self._inbound = Routes()
        self._inbound.add(Inbound(self.consumers, self.producers, self.replies, self.routes.name_of))
        self._pool = Pool(on_request=self._inbound.answer, credentials=options.credentials, tls=options.tls)
        self.name_servers = NameServerCalls(
            options.namesrv,
            self._pool,
            timeout_ms=options.request_timeout_ms,
            connect_timeout_ms=options.connect_timeout_ms,
        )
        self._heartbeats = Heartbeats(self._describe, version_2=options.heartbeat_v2)
        self._greeted: dict[str, Channel] = {}
        self._greetings: dict[Channel, asyncio.Task[None]] = {}
        self._looking: dict[str, asyncio.Task[TopicRoute | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._due = asyncio.Event()
        self._upkeep_task: asyncio.Task[None] | None = None

    # --- coming and going

    @classmethod
    async def join(cls, options: ClientOptions, *, apart_from: str | None = None) -> ClientInstance:
        """The shared instance for these options; with `apart_from` one on which no consumer of that group lives."""
        here = _by_loop.setdefault(asyncio.get_running_loop(), [])
        for instance in here:
            if (
                instance.options == options
                and instance.generation == GENERATION.number
                and not instance.is_closed
                and (apart_from is None or apart_from not in instance.consumers)
            ):
                break
        else:
            instance = cls(options)
            here.append(instance)
            instance._upkeep_task = asyncio.create_task(instance._upkeep(), name="cometmq upkeep")
        instance.users += 1
        return instance

    async def leave(self) -> None:
        """One user less; the last one out closes everything, bounded in time."""
        self.users -= 1
        if self.users > 0 or self.is_closed:
            return
        self.is_closed = True
        here = _by_loop.get(asyncio.get_running_loop(), [])
        if self in here:
            here.remove(self)
        if self.generation != GENERATION.number:
            return  # the sockets are the parent's
        # Who leaves may be one of our own tasks: a listener that stops its consumer.
        tasks = [task for task in (*self._tasks, self._upkeep_task) if task not in (None, asyncio.current_task())]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self.options.close_timeout_s)
        await self._inbound.close()
        for waiting in self.replies.values():
            waiting.cancel()
        await self._pool.close()

    def check_open(self, what: str) -> None:
        """Raise if this instance cannot be used (any more)."""
        if self.generation != GENERATION.number:
            check_process(self.generation, what)
        if self.is_closed:
            raise ClientClosed(f"{what} is closed; make a new one")

    def spawn(self, running: Coroutine[Any, Any, _T], name: str, *, logs: bool = True) -> asyncio.Task[_T]:
        """Run something beside; it is cancelled when the instance closes, and what it raises is logged.

        With `logs=False` it is not: for those whom somebody awaits.
        """
        if len(self._tasks) >= TASKS_MAX:
            running.close()
            raise ClientClosed(f"{TASKS_MAX} tasks are running already, the most that one client may have")
        task = asyncio.create_task(running, name=f"cometmq {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended if logs else self._tasks.discard)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            level = logging.WARNING if isinstance(fault, CometError) else logging.ERROR
            log.log(level, "%s: %s", task.get_name(), fault, exc_info=None if isinstance(fault, CometError) else fault)

    # --- who lives here

    async def add_consumer(self, consumer: ConsumerMember) -> None:
        """Register a consumer with every broker of the known routes."""
        if consumer.group in self.consumers:
            raise ClientClosed(f"the group {consumer.group} has a consumer on this instance; join with apart_from")
        self.consumers[consumer.group] = consumer
        await self.heartbeat_now()

    async def remove_consumer(self, consumer: ConsumerMember) -> None:
        """Tell the brokers at once that the consumer is gone, so that others take over."""
        if self.consumers.get(consumer.group) is consumer:
            del self.consumers[consumer.group]
            await self._unregister(UnregisterClient(self.client_id, consumer_group=consumer.group))

    def add_producer(self, producer: ProducerMember) -> None:
        """Register a producer: brokers learn of it when they are first connected to, or with the next heartbeat."""
        self.producers.setdefault(producer.group, []).append(producer)
        self.heartbeat_soon()

    async def remove_producer(self, producer: ProducerMember) -> None:
        members = self.producers.get(producer.group, [])
        if producer in members:
            members.remove(producer)
            if not members:
                del self.producers[producer.group]
                await self._unregister(UnregisterClient(self.client_id, producer_group=producer.group))

    async def _unregister(self, request: UnregisterClient) -> None:
        calls = [
            channel.call(request, timeout_ms=min(self.options.request_timeout_ms, 1_000))
            for address in self._addresses()
            if (channel := self._pool.get(address)) is not None
        ]
        await asyncio.gather(*calls, return_exceptions=True)

    # --- heartbeats

    def _describe(self) -> HeartbeatData:
        consumers = [consumer.consumer_data() for consumer in self.consumers.values()]
        return HeartbeatData(self.client_id, list(self.producers), consumers)

    def _addresses(self) -> list[str]:
        """Where heartbeats go: to the masters, and to slaves only if someone here may read from them."""
        return [
            address
            for addrs in self.routes.brokers.values()
            for broker_id, address in addrs.items()
            if broker_id == MASTER_ID or self.consumers
        ]

    def heartbeat_soon(self) -> None:
        """Let the next heartbeat not wait for its time: who lives here has changed."""
        self._due.set()

    async def heartbeat_now(self) -> None:
        """Heartbeat to every known broker; returns when all have answered or failed."""
        if self.consumers or self.producers:
            await asyncio.gather(*[self._beat(address) for address in self._addresses()])

    async def _beat(self, address: str) -> None:
        timeout_ms = self.options.request_timeout_ms
        try:
            channel = await self._pool.channel(address, timeout_ms=self.options.connect_timeout_ms)
            self._note(address, channel)
            await self._heartbeats.beat(channel, timeout_ms)
        except CometError as fault:
            log.info("heartbeat to %s failed: %s", address, fault)

    def _note(self, address: str, channel: Channel) -> bool:
        """Whether this connection is new to us; if so, its end will be noticed."""
        if self._greeted.get(address) is channel:
            return False
        self._greeted[address] = channel
        channel.closed.add_done_callback(lambda _: self._lost(address, channel))
        return True

    def _lost(self, address: str, channel: Channel) -> None:
        if self._greeted.get(address) is channel:
            del self._greeted[address]
        if not self.is_closed:
            asyncio.get_running_loop().call_later(RETRY_PAUSE_S, self._due.set)

    async def _upkeep(self) -> None:
        loop = asyncio.get_running_loop()
        options = self.options
        heartbeat_at = loop.time() + options.heartbeat_interval_s
        route_at = loop.time() + options.route_interval_s * random.uniform(0.9, 1.1)
        while True:
            try:
                async with asyncio.timeout_at(min(heartbeat_at, route_at)):
                    await self._due.wait()
            except TimeoutError:
                pass
            try:
                if loop.time() >= route_at:
                    route_at = loop.time() + options.route_interval_s
                    await self._refresh_routes()
                if self._due.is_set() or loop.time() >= heartbeat_at:
                    self._due.clear()
                    heartbeat_at = loop.time() + options.heartbeat_interval_s
                    await self.heartbeat_now()
            except Exception:
                log.exception("the upkeep of client %s stumbled; it goes on", self.client_id)
                await asyncio.sleep(RETRY_PAUSE_S)

    # --- routes

    async def _refresh_routes(self) -> None:
        await self.name_servers.refresh()
        for topic in list(self.routes.routes):
            try:
                await self._look(topic)
            except CometError as fault:  # what was told last stays good until a name server says otherwise
                log.info("the route of %s could not be refreshed: %s", topic, fault)
                return

    async def route(self, topic: str, *, refresh: bool = False) -> TopicRoute:
        """Where a topic is, as told last; `TopicNotFound` if it does not exist. From now on it is kept fresh."""
        if not refresh and topic in self.routes.readable:
            return self.routes.routes[topic]
        found = await self._look(topic)
        if found is None:
            raise TopicNotFound(topic, str(self.name_servers), "create it, or send a first message to it")
        return found

    async def writable_queues(
        self, topic: str, *, refresh: bool = False, new_queues: int = 4
    ) -> tuple[MessageQueue, ...]:
        """Queues to send to; a topic that does not exist is created by the first send, where the brokers allow it."""
        queues = self.routes.writable.get(topic)
        if queues and not refresh:
            return queues
        if await self._look(topic) is None:
            template = await self.name_servers.route(AUTO_CREATE_TOPIC) if topic != AUTO_CREATE_TOPIC else None
            if template is None:
                why = "create it first; the brokers create none by themselves (autoCreateTopicEnable)"
                raise TopicNotFound(topic, str(self.name_servers), why)
            self._take(topic, template, new_queues)
        queues = self.routes.writable.get(topic)
        if not queues:
            why = "none of its queues can be written now: no master is there, or writing is forbidden"
            raise TopicNotFound(topic, str(self.name_servers), why)
        return queues

    def readable_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues to read, of a topic whose route was asked for."""
        return self.routes.readable.get(topic, ())

    async def _look(self, topic: str) -> TopicRoute | None:
        """Ask the name servers, once for all who want to know at the same time."""
        task = self._looking.get(topic)
        if task is None:
            task = self.spawn(self.name_servers.route(topic), f"route of {topic}", logs=False)
            self._looking[topic] = task
            task.add_done_callback(lambda _: self._looking.pop(topic, None))
        found = await asyncio.shield(task)
        if found is not None:
            self._take(topic, found)
            return found
        # A name server that was just started knows nothing yet: what another told before is better than that.
        return self.routes.routes[topic] if topic in self.routes.readable else None

    def _take(self, topic: str, route: TopicRoute, queues_max: int | None = None) -> None:
        before = set(self._addresses())
        if self.routes.put(topic, route, queues_max=queues_max):
            self._tell_consumers(topic)
        if set(self._addresses()) - before:
            self.heartbeat_soon()

    def _tell_consumers(self, topic: str) -> None:
        for consumer in list(self.consumers.values()):
            try:
                consumer.route_changed(topic)
            except Exception:
                log.exception("consumer %s failed to take the new route of %s", consumer.group, topic)

    # --- brokers

    def open_channel(self, broker_name: str | None) -> Channel | None:
        """The open connection to a master, if there is one: what a send asks for first."""
        addrs = self.routes.brokers.get(broker_name or "")
        address = addrs.get(MASTER_ID) if addrs is not None else None
        return self._pool.get(address) if address is not None else None

    async def channel(self, broker_name: str, broker_id: int = MASTER_ID, *, or_any: bool = False) -> Channel:
        """A connection to a broker; a new one begins with a heartbeat, so that the broker knows who asks."""
        return (await self._channel(broker_name, broker_id, or_any))[1]

    async def _channel(self, broker_name: str, broker_id: int, or_any: bool) -> tuple[str, Channel]:
        self.check_open("the client")
        address = self.routes.address(broker_name, broker_id, or_any=or_any)
        if address is None:
            role = "master" if broker_id == MASTER_ID else f"replica {broker_id}"
            raise PeerUnreachable(f"the {role} of broker {broker_name} is in no route now; is it running?")
        channel = await self._connected(broker_name, address)
        if self._note(address, channel) and (self.consumers or self.producers):
            self._greet(channel)
        return address, channel

    async def _connected(self, broker_name: str, address: str) -> Channel:
        try:
            return await self._pool.channel(address, timeout_ms=self.options.connect_timeout_ms)
        except PeerUnreachable as fault:
            raise BrokerUnreachable(broker_name, address, str(self.name_servers), str(fault)) from None

    def _greet(self, channel: Channel) -> None:
        """The first thing said on a connection; what is sent after it does not wait for the answer."""

        async def beat() -> None:
            try:
                await self._heartbeats.beat(channel, self.options.request_timeout_ms)
            except CometError as fault:
                log.info("the first heartbeat to %s failed: %s", channel.peer, fault)

        task = self._greetings[channel] = self.spawn(beat(), "first heartbeat")
        task.add_done_callback(lambda _: self._greetings.pop(channel, None))

    async def greeted(self, broker_name: str) -> None:
        """Connect to a master if need be, and wait until it has answered the first heartbeat."""
        greeting = self._greetings.get(await self.channel(broker_name))
        if greeting is not None:
            await asyncio.shield(greeting)

    async def call_address(self, broker_name: str, address: str, request: Header, body: Body = b"") -> Command:
        """Ask a broker that need not be in a route; raises `PeerRefused`."""
        self.check_open("the client")
        channel = await self._connected(broker_name, address)
        return await channel.call(request, body, timeout_ms=self.options.request_timeout_ms)

    def go_away(self, broker_name: str, channel: Channel) -> None:
        """A broker that stops asked us to leave: the next request takes a new connection."""
        for address in self.routes.brokers.get(broker_name, {}).values():
            self._pool.retire(address, channel)

    async def exchange(
        self,
        broker_name: str,
        request: Header,
        body: Body = b"",
        *,
        broker_id: int = MASTER_ID,
        or_any: bool = False,
        timeout_ms: int | None = None,
    ) -> Command:
        """Ask a broker and return its answer, whatever its code is."""
        timeout_ms = timeout_ms or self.options.request_timeout_ms
        for attempt in (1, 2):
            address, channel = await self._channel(broker_name, broker_id, or_any)
            answer = await channel.exchange(request.command(body), timeout_ms=timeout_ms)
            if answer.code != ResponseCode.GO_AWAY or attempt == 2:
                break
            self._pool.retire(address, channel)
        return answer

    async def call(
        self,
        broker_name: str,
        request: Header,
        body: Body = b"",
        *,
        broker_id: int = MASTER_ID,
        or_any: bool = False,
        timeout_ms: int | None = None,
    ) -> Command:
        """Ask a broker; an answer other than success is raised as `PeerRefused`."""
        answer = await self.exchange(
            broker_name, request, body, broker_id=broker_id, or_any=or_any, timeout_ms=timeout_ms
        )
        if answer.code != _SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "", f"broker {broker_name}")
        return answer

    async def consumer_ids(self, topic: str, group: str) -> list[str]:
        """The client ids of a group's members, as one of the topic's brokers knows them (38); empty if none."""
        route = await self.route(topic)
        fault: CometError | None = None
        for broker in random.sample(route.brokers, len(route.brokers)):
            try:
                answer = await self.exchange(broker.broker_name, GetConsumerListByGroup(group), or_any=True)
            except CometError as lost:
                fault = lost
                continue
            return decode_consumer_ids(answer.body) if answer.code == _SUCCESS else []
        raise fault or PeerUnreachable(f"the topic {topic} has no broker now")


def _new_client_id() -> str:
    """`ip@pid#number`: a machine, a process, and a client in it."""
    return f"{outward_ip('0.0.0.0')}@{os.getpid()}#{next(_numbers)}{random.getrandbits(32):08x}"
