"""How far each client of a broadcasting group has pulled, for those that keep no offsets of their own.

A client that speaks to the broker keeps its offsets itself. One behind a proxy does not: its proxy pulls from offset
-1 and is told where to begin. So is a client that changes between the two.

    begins at   what this client pulled last
                else the least that all clients had pulled, committed for `group@broadcast` every few seconds
                else 0 while the first message is still in memory, or the end of the queue

A client is forgotten 2 minutes after its last pull, 5 if it is connected. Bounds: `CLIENTS_MAX` clients of all groups.

Mirrors: BroadcastOffsetManager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.members import Members, Peer
from cometmq.broker.offsets import Offsets
from cometmq.clock import Clock
from cometmq.wire.bodies.heartbeat import CONSUME_PASSIVELY
from cometmq.wire.requests.consume import PullMessage

FROM_PROXY: Final = 1  # requestSource of a proxy that pulls for a broadcasting client
GROUP_SUFFIX: Final = "@broadcast"
CLIENTS_MAX: Final = 100_000

FirstOffset = Callable[[str, int], int]  # topic, queue id → where a client begins of whom nothing is known


@dataclass(slots=True)
class _Client:
    from_proxy: bool
    pulled_ms: int  # of the monotonic clock
    offsets: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Puller:
    """Who pulls, and by which way."""

    client_id: str
    from_proxy: bool


class BroadcastOffsets:
    """Pulled offsets by topic, group and client."""

    def __init__(
        self, config: BrokerConfig, members: Members, offsets: Offsets, first_offset: FirstOffset, clock: Clock
    ) -> None:
        self._enable = config.enable_broadcast_offset_store
        self._expire_ms = config.broadcast_offset_expire_second * 1_000
        self._expire_max_ms = config.broadcast_offset_expire_max_second * 1_000
        self._members = members
        self._offsets = offsets
        self._first_offset = first_offset
        self._clock = clock
        self._clients: dict[tuple[str, str], dict[str, _Client]] = {}
        self._count = 0

    def puller(self, request: PullMessage, channel: Peer) -> Puller | None:
        """Who asks, if it is a client that broadcasts."""
        if not self._enable:
            return None
        if request.request_source == FROM_PROXY:
            client_id = request.proxy_froward_client_id
            return None if client_id is None else Puller(client_id, True)
        group = self._members.consumer_group(request.consumer_group)
        if group is None or not group.is_broadcasting or group.consume_type != CONSUME_PASSIVELY:
            return None
        client = group.clients.get(channel)
        return None if client is None else Puller(client.client_id, False)

    def start(self, request: PullMessage, puller: Puller) -> int | None:
        """Where the client must begin instead; None if it knows itself."""
        wants_start = request.queue_offset < 0
        clients = self._clients.get((request.topic, request.consumer_group))
        if clients is None:
            return self._begin(request, None) if puller.from_proxy and wants_start else None
        client = clients.get(puller.client_id)
        if client is None:
            client = self._add(clients, puller)
        if (client.from_proxy and wants_start) or client.from_proxy != puller.from_proxy:
            return self._begin(request, client)
        return None

    def _begin(self, request: PullMessage, client: _Client | None) -> int:
        topic, queue_id = request.topic, request.queue_id
        if client is not None and queue_id in client.offsets:
            return client.offsets[queue_id]
        committed = self._offsets.query(request.consumer_group + GROUP_SUFFIX, topic, queue_id)
        return self._first_offset(topic, queue_id) if committed is None else committed

    def pulled(self, request: PullMessage, puller: Puller, offset: int) -> None:
        """The client has everything before `offset`."""
        clients = self._clients.setdefault((request.topic, request.consumer_group), {})
        client = clients.get(puller.client_id) or self._add(clients, puller)
        client.pulled_ms = self._clock.monotonic_ms()
        client.from_proxy = puller.from_proxy
        client.offsets[request.queue_id] = max(offset, client.offsets.get(request.queue_id, offset))

    def _add(self, clients: dict[str, _Client], puller: Puller) -> _Client:
        made = _Client(puller.from_proxy, self._clock.monotonic_ms())
        if self._count < CLIENTS_MAX:  # else it is only not remembered
            clients[puller.client_id] = made
            self._count += 1
        return made

    def settle(self) -> None:
        """Commit what all clients have, and forget those that are gone."""
        now_ms = self._clock.monotonic_ms()
        for (topic, group), clients in list(self._clients.items()):
            least: dict[int, int] = {}
            known = self._members.consumer_group(group)
            online = set() if known is None else set(known.client_ids)
            for client_id, client in list(clients.items()):
                silent_ms = now_ms - client.pulled_ms
                if client_id in online or silent_ms < self._expire_ms:
                    for queue_id, offset in client.offsets.items():
                        least[queue_id] = min(offset, least.get(queue_id, offset))
                if silent_ms >= (self._expire_max_ms if client_id in online else self._expire_ms):
                    del clients[client_id]
                    self._count -= 1
            if not clients:
                del self._clients[topic, group]
            for queue_id, offset in least.items():
                if self._offsets.query(group + GROUP_SUFFIX, topic, queue_id) != offset:
                    self._offsets.commit(group + GROUP_SUFFIX, topic, queue_id, offset)
