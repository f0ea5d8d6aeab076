"""Making topics from a program.

Mirrors: MQAdminImpl.createTopic.
"""

from __future__ import annotations

import asyncio
from typing import Final

from cometmq.client.instance import ClientInstance
from cometmq.errors import InvalidArgument, PeerUnreachable, TopicNotFound
from cometmq.model import names
from cometmq.model.route import MASTER_ID
from cometmq.model.sysflag import READ_WRITE
from cometmq.wire.bodies.cluster import decode_cluster_info
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.namesrv import GetClusterInfo

QUEUES_MAX: Final = 65_536
ROUTE_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05


async def create(instance: ClientInstance, topic: str, queues: int, attributes: dict[str, str]) -> None:
    """Make a topic on every master; returns when the name servers tell of it."""
    if not 1 <= queues <= QUEUES_MAX:
        raise InvalidArgument(f"a topic has 1 to {QUEUES_MAX} queues, not {queues}")
    if names.is_system_topic(topic):
        raise InvalidArgument(f"{topic} is a topic of the system")
    cluster = decode_cluster_info((await instance.name_servers.call(GetClusterInfo())).body)
    masters = {name: broker.addrs[MASTER_ID] for name, broker in cluster.brokers.items() if MASTER_ID in broker.addrs}
    if not masters:
        raise PeerUnreachable(f"no broker is registered with the name servers ({instance.name_servers})")
    text = ",".join(f"+{key}={value}" for key, value in attributes.items()) or None
    request = CreateTopic(topic, queues, queues, READ_WRITE, "SINGLE_TAG", names.AUTO_CREATE_TOPIC, attributes=text)
    for broker_name, address in masters.items():
        await instance.call_address(broker_name, address, request)
    loop = asyncio.get_running_loop()
    until = loop.time() + ROUTE_WAIT_S
    while True:
        try:
            await instance.route(topic, refresh=True)
            return
        except TopicNotFound:
            if loop.time() >= until:
                raise
        await asyncio.sleep(_POLL_S)
