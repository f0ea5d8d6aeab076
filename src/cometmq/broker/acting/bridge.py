"""The bridge between groups of brokers: over it messages escape from one without a master, and are read of another.

    put     to another master of the cluster. A queue of another broker name that has a master and may be written to is
            taken, each in turn. The message is sent as a producer sends it, under the group of its producer, where it
            names one
    read    of a broker by its name: of its master, else of whom the NameServers know in its place. What is gone there
            for certain is left out; as long as nobody answers, or who answers does not have it, it raises

Where a topic is, the NameServers say.

Mirrors: EscapeBridge.putMessageToRemoteBroker, getMessageFromRemote, TopicRouteInfoManager.
"""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple

from cometmq.broker.config import MASTER_ID, BrokerConfig
from cometmq.broker.inner_messages import InnerMessage
from cometmq.broker.inner_reader import InnerRead
from cometmq.clock import Clock
from cometmq.errors import CometError, PeerError, PeerRefused, PeerUnreachable
from cometmq.model import properties
from cometmq.model.route import TopicRoute
from cometmq.model.sysflag import Perm
from cometmq.net.name_servers import NameServers
from cometmq.net.pool import Pool
from cometmq.store.reader import ReadStatus
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import PullMessage, PullMessageReply
from cometmq.wire.requests.namesrv import GetRouteInfo
from cometmq.wire.requests.send import SendMessageV2

TIMEOUT_MS: Final = 3_000
ROUTE_MS: Final = 5_000  # how long a route is believed, and a broker not asked again that did not answer
ROUTES_MAX: Final = 10_000
READERS: Final = "TOOLS_CONSUMER"  # a group that every broker has
_SUBSCRIPTION: Final = 0x4  # the pull says itself what it wants

# Stored, if not as safe as promised: not to be sent again.
_STORED: Final = frozenset(
    {ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
)


class Place(NamedTuple):
    """A queue of another broker."""

    address: str
    broker_name: str
    queue_id: int


class EscapeBridge:
    """Sends messages away, and reads them from afar."""

    def __init__(self, config: BrokerConfig, name_servers: NameServers, clock: Clock) -> None:
        self._own_name = config.broker_name
        self._producer_group = f"InnerProducerGroup_{config.broker_name}_{config.broker_id}"
        self._name_servers = name_servers
        self._clock = clock
        self._pool = Pool()
        self._routes: dict[str, tuple[int, TopicRoute]] = {}  # by topic, and until when they are believed
        self._silent: dict[str, tuple[int, PeerError]] = {}  # by address, and until when they are left alone
        self._turn = itertools.count()

    async def put(self, message: InnerMessage) -> None:
        """Have another broker store it; raises if none did."""
        places = list(self._others(await self._route(message.topic)))
        if not places:
            self._routes.pop(message.topic, None)
            raise PeerUnreachable(
                f"no other broker of the cluster has the topic {message.topic} and a master to write to"
            )
        place = places[next(self._turn) % len(places)]
        request = SendMessageV2(
            producer_group=message.properties.get(properties.PRODUCER_GROUP) or self._producer_group,
            topic=message.topic,
            default_topic="TBW102",
            default_topic_queue_nums=8,
            queue_id=place.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_time_ms,
            flag=message.flag,
            properties=properties.render(message.properties),
            reconsume_times=message.reconsume_times,
            broker_name=place.broker_name,
        )
        try:
            channel = await self._pool.channel(place.address)
            await channel.call(request, bytes(message.body), timeout_ms=TIMEOUT_MS)
        except PeerRefused as refused:
            if refused.code not in _STORED:
                raise
        except PeerError:
            self._routes.pop(message.topic, None)
            raise

    async def read(self, broker_name: str, topic: str, queue_id: int, offset: int, count: int) -> InnerRead:
        """Up to `count` messages of a queue of another broker from `offset` on."""
        route = await self._route(topic)
        addrs = next((broker.addrs for broker in route.brokers if broker.broker_name == broker_name), None)
        if not addrs:
            self._routes.pop(topic, None)
            raise PeerUnreachable(f"no name server knows a broker {broker_name} that has the topic {topic}")
        address = addrs[min(addrs)]
        now_ms = self._clock.monotonic_ms()
        until_ms, fault = self._silent.get(address, (0, None))
        if fault is not None and now_ms < until_ms:
            raise fault
        request = PullMessage(READERS, topic, queue_id, offset, count, _SUBSCRIPTION, 0, 0, 0, "*")
        try:
            channel = await self._pool.channel(address)
            answer = await channel.exchange(request.command(), timeout_ms=TIMEOUT_MS)
        except PeerError as silence:
            if len(self._silent) >= ROUTES_MAX:
                self._silent.clear()
            self._silent[address] = now_ms + ROUTE_MS, silence
            self._routes.pop(topic, None)
            raise
        self._silent.pop(address, None)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return InnerRead(ReadStatus.NO_MATCHED_LOGIC_QUEUE, offset + count, [])
        if answer.code == ResponseCode.SUCCESS:
            found = [one for one in decode_records(answer.body) if offset <= one.queue_offset < offset + count]
            return InnerRead(ReadStatus.FOUND, PullMessageReply.read(answer.ext).next_begin_offset, found)
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            first = PullMessageReply.read(answer.ext).next_begin_offset
            if first > offset:
                return InnerRead(ReadStatus.OFFSET_TOO_SMALL, first, [])
        said = answer.remark or f"code {answer.code}"
        raise PeerUnreachable(f"{broker_name} at {address} does not have message {offset} of {topic} now: {said}")

    def _others(self, route: TopicRoute) -> list[Place]:
        masters = {broker.broker_name: broker.addrs.get(MASTER_ID) for broker in route.brokers}
        return [
            Place(address, queues.broker_name, queue_id)
            for queues in route.queues
            if queues.broker_name != self._own_name and queues.perm & Perm.WRITE
            for address in [masters.get(queues.broker_name)]
            if address
            for queue_id in range(queues.write_queue_nums)
        ]

    async def _route(self, topic: str) -> TopicRoute:
        now_ms = self._clock.monotonic_ms()
        until_ms, route = self._routes.get(topic, (0, None))
        if route is None or now_ms >= until_ms:
            route = await self._ask_route(topic)
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[topic] = now_ms + ROUTE_MS, route
        return route

    async def _ask_route(self, topic: str) -> TopicRoute:
        fault: CometError = PeerUnreachable("no name server is known")
        for namesrv in self._name_servers.addresses:
            try:
                channel = await self._pool.channel(namesrv)
                answer = await channel.call(GetRouteInfo(topic, True), timeout_ms=TIMEOUT_MS)
                return decode_route(answer.body)
            except CometError as failed:
                fault = failed
        raise fault

    async def close(self) -> None:
        await self._pool.close()
