"""Brokers by name, names by cluster, and the members of one name.

Mirrors: ClusterInfo, BrokerMemberGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cometmq.model.route import BrokerData
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_list, as_object, text
from cometmq.wire.bodies.route import addrs_from_json, broker_from_json, broker_to_json


@dataclass(slots=True)
class ClusterInfo:
    """All brokers that a NameServer knows."""

    brokers: dict[str, BrokerData] = field(default_factory=dict)
    clusters: dict[str, list[str]] = field(default_factory=dict)


def encode_cluster_info(brokers: Mapping[str, BrokerData], clusters: Mapping[str, Iterable[str]]) -> bytes:
    """Always in fastjson's dialect, as Java answers whoever asks."""
    fields = {
        "brokerAddrTable": {name: broker_to_json(broker) for name, broker in brokers.items()},
        "clusterAddrTable": {cluster: list(names) for cluster, names in clusters.items()},
    }
    return fastjson.dumps(fields, strict=False)


def decode_cluster_info(data: bytes | memoryview) -> ClusterInfo:
    fields = as_object(fastjson.loads(data), "the cluster information")
    brokers = as_object(fields.get("brokerAddrTable") or {}, "brokerAddrTable")
    clusters = as_object(fields.get("clusterAddrTable") or {}, "clusterAddrTable")
    return ClusterInfo(
        brokers={name: broker_from_json(item) for name, item in brokers.items()},
        clusters={cluster: [str(name) for name in as_list(names, cluster)] for cluster, names in clusters.items()},
    )


def encode_member_group(cluster: str | None, broker_name: str | None, addrs: Mapping[int, str]) -> bytes:
    group: dict[str, Any] = {"brokerAddrs": dict(addrs)}
    if broker_name is not None:
        group["brokerName"] = broker_name
    if cluster is not None:
        group["cluster"] = cluster
    return fastjson.dumps({"brokerMemberGroup": group}, strict=False)


def decode_member_group(data: bytes | memoryview) -> BrokerData:
    fields = as_object(fastjson.loads(data), "the reply")
    group = as_object(fields.get("brokerMemberGroup") or {}, "brokerMemberGroup")
    return BrokerData(
        cluster=text(group, "cluster") or "",
        broker_name=text(group, "brokerName") or "",
        addrs=addrs_from_json(group.get("brokerAddrs") or {}),
    )
