"""Brokers as the NameServer sees them: who registers, who is alive, and what they are told.

Mirrors: BrokerAddrInfo, BrokerLiveInfo, RegisterBrokerResult, RouteInfoManager.notifyMinBrokerIdChanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cometmq.model.data_version import DataVersion
from cometmq.wire.requests.namesrv import NotifyMinBrokerIdChange


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """One broker process as it names itself."""

    cluster: str
    name: str
    addr: str
    id: int


@dataclass(slots=True)
class Live:
    """A broker that was heard of."""

    heard_ms: int
    timeout_ms: int
    data_version: DataVersion
    connection: object
    ha_addr: str | None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the brokers at `addrs` must be told."""

    addrs: list[str]
    message: NotifyMinBrokerIdChange


@dataclass(slots=True)
class Registered:
    """What a registering broker learns; a slave learns its master."""

    master_addr: str | None = None
    ha_addr: str | None = None
    notices: list[Notice] = field(default_factory=list)


def min_id_notices(addrs: dict[int, str], *, offline_addr: str | None, ha_addr: str | None) -> list[Notice]:
    """The smallest id of a group changed. Who remains is told of a leaving, who was there before of a joining."""
    first = min(addrs)
    everyone = offline_addr is not None or len(addrs) == 1
    message = NotifyMinBrokerIdChange(
        min_broker_id=first, min_broker_addr=addrs[first], offline_broker_addr=offline_addr, ha_broker_addr=ha_addr
    )
    return [Notice([addr for i, addr in addrs.items() if everyone or i != first], message)]
