"""Where a topic is: the queues that brokers hold of it and the addresses of those brokers.

A broker name stands for a group of brokers, by id: 0 is the master, larger ids are slaves.

Mirrors: TopicRouteData, QueueData, BrokerData.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

MASTER_ID: Final = 0
SCOPE_GLOBAL: Final = "__global__"
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""The key-value namespace whose entries become `TopicRoute.order_conf`."""


@dataclass(slots=True)
class QueueData:
    """What one broker name holds of a topic."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


@dataclass(slots=True)
class BrokerData:
    """One broker name: the addresses of its master and slaves."""

    cluster: str
    broker_name: str
    addrs: dict[int, str] = field(default_factory=dict)
    zone_name: str | None = None
    enable_acting_master: bool = False

    @property
    def min_broker_id(self) -> int | None:
        """The smallest id that is there; a slave that has it may act as master."""
        return min(self.addrs) if self.addrs else None

    def copy(self) -> BrokerData:
        return replace(self, addrs=dict(self.addrs))


@dataclass(slots=True)
class QueueMapping:
    """The part of a static topic that one broker holds: logical queue id → the broker's own queue id.

    Mirrors: TopicQueueMappingInfo.
    """

    topic: str
    broker_name: str
    total_queues: int = 0
    epoch: int = 0
    scope: str = SCOPE_GLOBAL
    dirty: bool = False
    current_ids: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class TopicRoute:
    """The answer to "where is this topic?"."""

    queues: list[QueueData] = field(default_factory=list)
    brokers: list[BrokerData] = field(default_factory=list)
    filter_servers: dict[str, list[str]] = field(default_factory=dict)
    order_conf: str | None = None
    queue_mappings: dict[str, QueueMapping] | None = None

    def in_zone(self, zone_name: str) -> TopicRoute:
        """Without the brokers of other zones; those that lost their master stay, so that they can be read."""
        wanted = zone_name.casefold()
        kept: list[BrokerData] = []
        removed: list[BrokerData] = []
        for broker in self.brokers:
            near = MASTER_ID not in broker.addrs or (broker.zone_name or "").casefold() == wanted
            (kept if near else removed).append(broker)
        names = {broker.broker_name for broker in removed}
        addrs = {addr for broker in removed for addr in broker.addrs.values()}
        return replace(
            self,
            brokers=kept,
            queues=[queue for queue in self.queues if queue.broker_name not in names],
            filter_servers={addr: servers for addr, servers in self.filter_servers.items() if addr not in addrs},
        )
