"""The bridge by which a message escapes from a group without a master: it is sent to another master of the cluster.

Where its topic is, the NameServers say; a queue of another broker name that has a master and may be written to is
taken, each in turn. The message is sent as a producer sends it, under the group of its producer, where it names one.

Mirrors: EscapeBridge.putMessageToRemoteBroker, TopicRouteInfoManager.
"""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple

from cometmq.broker.config import MASTER_ID, BrokerConfig
from cometmq.broker.inner_messages import InnerMessage
from cometmq.clock import Clock
from cometmq.errors import CometError, PeerError, PeerRefused, PeerUnreachable
from cometmq.model import properties
from cometmq.model.route import TopicRoute
from cometmq.model.sysflag import Perm
from cometmq.net.name_servers import NameServers
from cometmq.net.pool import Pool
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.namesrv import GetRouteInfo
from cometmq.wire.requests.send import SendMessageV2

SEND_TIMEOUT_MS: Final = 3_000
ROUTE_MS: Final = 5_000  # how long a route is believed
ROUTES_MAX: Final = 10_000

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
    """Sends messages away."""

    def __init__(self, config: BrokerConfig, name_servers: NameServers, clock: Clock) -> None:
        self._own_name = config.broker_name
        self._producer_group = f"InnerProducerGroup_{config.broker_name}_{config.broker_id}"
        self._name_servers = name_servers
        self._clock = clock
        self._pool = Pool()
        self._places: dict[str, tuple[int, list[Place]]] = {}  # by topic, and until when they are believed
        self._turn = itertools.count()

    async def put(self, message: InnerMessage) -> None:
        """Have another broker store it; raises if none did."""
        places = await self._places_of(message.topic)
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
            await channel.call(request, bytes(message.body), timeout_ms=SEND_TIMEOUT_MS)
        except PeerRefused as refused:
            if refused.code not in _STORED:
                raise
        except PeerError:
            self._places.pop(message.topic, None)
            raise

    async def _places_of(self, topic: str) -> list[Place]:
        now_ms = self._clock.monotonic_ms()
        until_ms, places = self._places.get(topic, (0, []))
        if now_ms >= until_ms:
            places = list(self._others(await self._route(topic)))
            if len(self._places) >= ROUTES_MAX:
                self._places.clear()
            self._places[topic] = now_ms + ROUTE_MS, places
        if not places:
            self._places.pop(topic, None)
            raise PeerUnreachable(f"no other broker of the cluster has the topic {topic} and a master to write to")
        return places

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
        fault: CometError = PeerUnreachable("no name server is known")
        for namesrv in self._name_servers.addresses:
            try:
                channel = await self._pool.channel(namesrv)
                answer = await channel.call(GetRouteInfo(topic, True), timeout_ms=SEND_TIMEOUT_MS)
                return decode_route(answer.body)
            except CometError as failed:
                fault = failed
        raise fault

    async def close(self) -> None:
        await self._pool.close()
