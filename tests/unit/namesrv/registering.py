"""Brokers that register, for the tests of the NameServer."""

from __future__ import annotations

from typing import Any

from cometmq.model.data_version import DataVersion
from cometmq.model.topic import TopicConfig
from cometmq.namesrv.brokers import BrokerIdentity, Registered
from cometmq.namesrv.config import NamesrvConfig
from cometmq.namesrv.route_table import RouteTable
from cometmq.namesrv.settings import Settings
from cometmq.wire.bodies.registration import Registration

MASTER = BrokerIdentity("C", "a", "10.0.0.1:10911", 0)
SLAVE = BrokerIdentity("C", "a", "10.0.0.2:10911", 1)
SLAVE_2 = BrokerIdentity("C", "a", "10.0.0.3:10911", 2)
OTHER = BrokerIdentity("C", "b", "10.0.0.9:10911", 0)


class FakeClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def table(**changed: Any) -> RouteTable:
    return RouteTable(Settings(NamesrvConfig(**changed)))


def body(*topics: TopicConfig | str, counter: int = 1, state: int = 0, **more: Any) -> Registration:
    """A table of these topics, and of `x`: a table of one is taken for an addition."""
    configs = [TopicConfig(topic, 4, 4) if isinstance(topic, str) else topic for topic in topics]
    configs.append(TopicConfig("x", 1, 1))
    return Registration(DataVersion(state, 1, counter), {topic.name: topic for topic in configs}, **more)


def register(into: RouteTable, who: BrokerIdentity, *topics: TopicConfig | str, **more: Any) -> Registered:
    options = {key: more.pop(key) for key in ("counter", "state", "filter_servers", "queue_mappings") if key in more}
    arguments: dict[str, Any] = {"now_ms": 0, "connection": who.addr, "ha_addr": f"ha of {who.addr}", **more}
    return into.register(who, body(*topics, **options), **arguments)
