"""Who is connected: producers and consumers by group, as heartbeats tell it.

A member is a connection; it leaves by unregistering, by closing, or by saying nothing for `expire_ms`.
When the members or the topics of a consumer group change, every member is told (one-way, code 40) and
rebalances at once instead of at its next turn. Broadcasting groups do not rebalance, so they are not told.
Consumers that send no heartbeat bring their subscription with each pull or pop; it is remembered for a while.
Bounds: `GROUPS_PER_CONNECTION_MAX` groups for one connection, `FINGERPRINTS_MAX` remembered fingerprints,
`BROUGHT_MAX` subscriptions that came with requests.

Mirrors: ProducerManager, ConsumerManager, ConsumerGroupInfo, DefaultConsumerIdsChangeListener.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from cometmq.clock import Clock
from cometmq.model.subscription import SubscriptionData
from cometmq.wire.bodies.heartbeat import BROADCASTING, ConsumerData
from cometmq.wire.command import Body, Command
from cometmq.wire.requests.members import NotifyConsumerIdsChanged
from cometmq.wire.schema import Header

log = logging.getLogger("cometmq.broker")

EXPIRE_MS: Final = 120_000
GROUPS_PER_CONNECTION_MAX: Final = 10_000
FINGERPRINTS_MAX: Final = 100_000
BROUGHT_MAX: Final = 100_000
BROUGHT_LIVE_MS: Final = 600_000


class Peer(Protocol):
    """The connection of a member: `net.channel.Channel`."""

    @property
    def is_open(self) -> bool: ...

    @property
    def is_writable(self) -> bool: ...

    def notify(self, request: Header, body: Body = ...) -> None: ...

    async def exchange(self, command: Command, *, timeout_ms: int = ...) -> Command: ...

    def close(self, why: str = ...) -> None: ...


@dataclass(slots=True)
class Client:
    """One member of one group."""

    channel: Peer
    client_id: str
    language: int = 0
    version: int = 0
    last_update_ms: int = 0  # of the monotonic clock


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group that has members; how it consumes is what its last heartbeat said."""

    name: str
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    clients: dict[Peer, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    @property
    def client_ids(self) -> list[str]:
        return [client.client_id for client in self.clients.values()]

    def subscribe(self, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Take a member's subscriptions; says whether the group's topics changed (a new expression alone does not)."""
        wanted = {item.topic: item for item in subscriptions}
        changed = wanted.keys() != self.subscriptions.keys()
        for topic, item in wanted.items():
            old = self.subscriptions.get(topic)
            if old is None or item.sub_version > old.sub_version:
                self.subscriptions[topic] = item
        for topic in self.subscriptions.keys() - wanted.keys():
            del self.subscriptions[topic]
        return changed


class Members:
    """All groups that have members."""

    def __init__(
        self,
        clock: Clock,
        expire_ms: int = EXPIRE_MS,
        *,
        notify_enable: bool = True,
        brought_live_ms: int = BROUGHT_LIVE_MS,
    ) -> None:
        self._clock = clock
        self._expire_ms = expire_ms
        self._notify_enable = notify_enable
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Peer, Client]] = {}
        self._producer_channels: dict[str, Peer] = {}  # by client id
        self._groups_of: dict[Peer, tuple[set[str], set[str]]] = {}  # consumer groups, producer groups
        self._fingerprints: dict[str, int] = {}
        self._brought: dict[tuple[str, str], tuple[SubscriptionData, int]] = {}  # by group and topic, with its time
        self._brought_live_ms = brought_live_ms
        self.on_subscribe: Callable[[str, Iterable[SubscriptionData]], object] = lambda group, subscriptions: None
        self.on_empty: Callable[[str], object] = lambda group: None  # the last member of a consumer group is gone

    # --- looking up

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        return self._consumers.get(group)

    def consumer_groups(self) -> Iterator[ConsumerGroup]:
        return iter(self._consumers.values())

    def producer_groups(self) -> Iterator[str]:
        return iter(self._producers)

    def producers_of(self, group: str) -> list[Client]:
        return list(self._producers.get(group, {}).values())

    def producer_channel(self, client_id: str) -> Peer | None:
        """The connection by which a producer is reached, whatever its groups are."""
        return self._producer_channels.get(client_id)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What a group wants of a topic, as its heartbeats say, or else what a request of it brought."""
        found = self._consumers.get(group)
        subscription = None if found is None else found.subscriptions.get(topic)
        return subscription or self._brought.get((group, topic), (None, 0))[0]

    def brought(self, group: str, subscription: SubscriptionData) -> None:
        """A request came with its own subscription."""
        self._brought[group, subscription.topic] = subscription, self._clock.monotonic_ms()
        if len(self._brought) > BROUGHT_MAX:
            del self._brought[next(iter(self._brought))]

    def subscribers_of(self, topic: str) -> set[str]:
        """The connected groups that subscribe to a topic."""
        return {group.name for group in self._consumers.values() if topic in group.subscriptions}

    # --- joining

    def register_consumer(
        self, client: Client, data: ConsumerData, *, notify: bool = True, with_subscriptions: bool = True
    ) -> bool:
        """A heartbeat of a consumer; says whether the group changed."""
        joined, _ = self._groups_of.setdefault(client.channel, (set(), set()))
        if data.group not in joined:
            if len(joined) >= GROUPS_PER_CONNECTION_MAX:
                log.warning("%s is in %d consumer groups, the most allowed", client.client_id, len(joined))
                return False
            joined.add(data.group)
        group = self._consumers.get(data.group)
        if group is None:
            self._consumers[data.group] = group = ConsumerGroup(data.group)
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        changed = client.channel not in group.clients
        self._refresh(group.clients, client)
        if with_subscriptions and group.subscribe(data.subscriptions):
            changed = True
        if changed and notify:
            self._tell(group)
        if with_subscriptions:
            self.on_subscribe(data.group, data.subscriptions)
        return changed

    def register_producer(self, client: Client, group: str) -> None:
        """A heartbeat of a producer."""
        _, joined = self._groups_of.setdefault(client.channel, (set(), set()))
        if group not in joined:
            if len(joined) >= GROUPS_PER_CONNECTION_MAX:
                log.warning("%s is in %d producer groups, the most allowed", client.client_id, len(joined))
                return
            joined.add(group)
        self._producer_channels[client.client_id] = client.channel
        self._refresh(self._producers.setdefault(group, {}), client)

    def _refresh(self, clients: dict[Peer, Client], client: Client) -> None:
        known = clients.get(client.channel)
        if known is None or known.client_id != client.client_id:
            clients[client.channel] = known = Client(client.channel, client.client_id, client.language, client.version)
        known.last_update_ms = self._clock.monotonic_ms()

    def fingerprint_changed(self, group: str, fingerprint: int) -> bool:
        """Remember a heartbeat's fingerprint; says whether the group had another one before."""
        before = self._fingerprints.pop(group, None)
        self._fingerprints[group] = fingerprint
        if len(self._fingerprints) > FINGERPRINTS_MAX:
            del self._fingerprints[next(iter(self._fingerprints))]
        return before is not None and before != fingerprint

    # --- leaving

    def unregister_consumer(self, channel: Peer, group: str, *, notify: bool = True) -> None:
        """A consumer says goodbye; those who stay are told."""
        found = self._consumers.get(group)
        if found is not None:
            self._leave(channel, found)
            if notify:
                self._tell(found)

    def unregister_producer(self, channel: Peer, group: str) -> None:
        clients = self._producers.get(group)
        if clients is not None:
            gone = clients.pop(channel, None)
            if gone is not None and self._producer_channels.get(gone.client_id) is channel:
                del self._producer_channels[gone.client_id]
            self._forget(channel, 1, group)
            if not clients:
                del self._producers[group]

    def closed(self, channel: Peer) -> None:
        """A connection is gone, and with it its part in every group."""
        consumers, producers = self._groups_of.pop(channel, ((), ()))
        for name in list(producers):
            self.unregister_producer(channel, name)
        for name in list(consumers):
            group = self._consumers.get(name)
            if group is not None and channel in group.clients:
                self._leave(channel, group)
                self._tell(group)

    def expire(self) -> None:
        """Close the connections of members that have been silent too long. Call it every 10 s."""
        oldest_ms = self._clock.monotonic_ms() - self._expire_ms  # a clock that was set must not throw everyone out
        tables = [group.clients for group in self._consumers.values()] + list(self._producers.values())
        silent = {
            client.channel for clients in tables for client in clients.values() if client.last_update_ms < oldest_ms
        }
        for channel in silent:
            self.closed(channel)
            channel.close(f"no heartbeat for {self._expire_ms} ms")
        oldest_ms = self._clock.monotonic_ms() - self._brought_live_ms
        for key in [key for key, (_, time_ms) in self._brought.items() if time_ms < oldest_ms]:
            del self._brought[key]

    def _leave(self, channel: Peer, group: ConsumerGroup) -> None:
        group.clients.pop(channel, None)
        self._forget(channel, 0, group.name)
        if not group.clients and self._consumers.pop(group.name, None) is not None:
            self.on_empty(group.name)

    def _forget(self, channel: Peer, kind: int, group: str) -> None:
        joined = self._groups_of.get(channel)
        if joined is not None:
            joined[kind].discard(group)
            if not any(joined):
                del self._groups_of[channel]

    def _tell(self, group: ConsumerGroup) -> None:
        if self._notify_enable and not group.is_broadcasting:
            for channel in group.clients:
                if channel.is_open:
                    channel.notify(NotifyConsumerIdsChanged(group.name))
