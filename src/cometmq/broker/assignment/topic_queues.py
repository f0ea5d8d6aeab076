"""The queues of a topic on all brokers, as the name servers know them.

What was found is used for `poll_ms` and asked for again when it is needed after that; who asks at the same time waits
for the same answer. While no name server answers, what was found last holds. A topic that they do not know is
forgotten and asked for every time.
Bounds: `TOPICS_MAX` topics, the ones asked for longest ago are dropped.

Mirrors: TopicRouteInfoManager.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from cometmq.clock import Clock
from cometmq.errors import CometError, PeerRefused
from cometmq.model.queue import MessageQueue
from cometmq.model.route import TopicRoute
from cometmq.model.sysflag import Perm
from cometmq.net.name_servers import NameServers
from cometmq.net.pool import Pool
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.namesrv import GetRouteInfo

log = logging.getLogger("cometmq.broker")

TIMEOUT_MS: Final = 3_000
TOPICS_MAX: Final = 10_000


@dataclass(slots=True)
class _Found:
    queues: list[MessageQueue]
    asked_ms: int  # of the monotonic clock


class TopicQueues:
    """Asks the name servers, and remembers for a while."""

    def __init__(self, name_servers: NameServers, clock: Clock, poll_ms: int) -> None:
        self._name_servers = name_servers
        self._clock = clock
        self._poll_ms = poll_ms
        self._pool = Pool()
        self._found: dict[str, _Found] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def of(self, topic: str) -> list[MessageQueue] | None:
        """The readable queues, sorted; None if nobody knows the topic."""
        found = self._found.get(topic)
        if found is None or not found.queues or self._clock.monotonic_ms() - found.asked_ms >= self._poll_ms:
            asking = self._asking.get(topic)
            if asking is None:
                self._asking[topic] = asking = asyncio.create_task(self._ask(topic))
                asking.add_done_callback(lambda _: self._asking.pop(topic, None))
            await asyncio.shield(asking)
            found = self._found.get(topic)
        return None if found is None else found.queues

    async def _ask(self, topic: str) -> None:
        for address in self._name_servers.addresses:
            try:
                channel = await self._pool.channel(address, timeout_ms=TIMEOUT_MS)
                answer = await channel.call(GetRouteInfo(topic, True), timeout_ms=TIMEOUT_MS)
                self._take(topic, decode_route(answer.body))
                return
            except PeerRefused as refused:
                if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                    self._found.pop(topic, None)
                    return
                log.warning("the name server %s does not tell the route of %s: %s", address, topic, refused)
            except CometError as fault:
                log.warning("the name server %s does not tell the route of %s: %s", address, topic, fault)

    def _take(self, topic: str, route: TopicRoute) -> None:
        self._found.pop(topic, None)
        self._found[topic] = _Found(queues_of(topic, route), self._clock.monotonic_ms())
        if len(self._found) > TOPICS_MAX:
            del self._found[next(iter(self._found))]

    async def close(self) -> None:
        for asking in list(self._asking.values()):
            asking.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self._pool.close()


def queues_of(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """The queues that can be read, sorted."""
    readable = [data for data in route.queues if data.perm & Perm.READ]
    return sorted(
        {MessageQueue(topic, data.broker_name, number) for data in readable for number in range(data.read_queue_nums)}
    )
