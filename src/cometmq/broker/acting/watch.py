"""Signs of life for the NameServers, and the list of the group's members from them, each every second.

With `enableSlaveActingMaster` a NameServer drops a broker that was silent for `brokerNotActiveTimeoutMillis`, not after
two minutes; so a slave knows within seconds that it is the first of its group.

Mirrors: BrokerController.sendHeartbeat, syncBrokerMemberGroup; always by BROKER_HEARTBEAT and GET_BROKER_MEMBER_GROUP,
which NameServers before 5.0 do not know.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cometmq.broker.acting.group import BrokerGroup
from cometmq.broker.config import BrokerConfig
from cometmq.errors import CometError
from cometmq.net.name_servers import NameServers
from cometmq.net.pool import Pool
from cometmq.wire.bodies.cluster import decode_member_group
from cometmq.wire.requests.namesrv import BrokerHeartbeat, GetBrokerMemberGroup

log = logging.getLogger("cometmq.broker")

LIST_TIMEOUT_MS: Final = 3_000


class Watch:
    """Talks to the NameServers over connections of its own: a slow registration holds up no heartbeat."""

    def __init__(self, config: BrokerConfig, group: BrokerGroup, name_servers: NameServers) -> None:
        self._config = config
        self._group = group
        self._name_servers = name_servers
        self._pool = Pool()
        self.isolated = False  # not registered yet: nobody is to hear of us

    async def send_heartbeats(self) -> None:
        """Tell every NameServer that this broker is there."""
        if not self.isolated:
            await asyncio.gather(*map(self._beat, self._name_servers.addresses))

    async def _beat(self, namesrv: str) -> None:
        config = self._config
        heartbeat = BrokerHeartbeat(
            cluster_name=config.broker_cluster_name,
            broker_addr=self._group.own_addr,
            broker_name=config.broker_name,
            broker_id=config.broker_id,
        )
        try:
            channel = await self._pool.channel(namesrv, timeout_ms=config.send_heartbeat_timeout_millis)
            await channel.call(heartbeat, timeout_ms=config.send_heartbeat_timeout_millis)
        except CometError as fault:
            log.info("no heartbeat to the name server %s: %s", namesrv, fault)

    async def list_members(self) -> None:
        """Ask who is there, and say so to the group."""
        members = await self.members()
        if members is not None and not self.isolated:
            self._group.listed(members)

    async def members(self) -> dict[int, str] | None:
        """The members as the first NameServer that answers tells; None if none does."""
        request = GetBrokerMemberGroup(self._config.broker_cluster_name, self._config.broker_name)
        for namesrv in self._name_servers.addresses:
            try:
                channel = await self._pool.channel(namesrv, timeout_ms=LIST_TIMEOUT_MS)
                answer = await channel.call(request, timeout_ms=LIST_TIMEOUT_MS)
                return decode_member_group(answer.body).addrs
            except CometError as fault:
                log.info("the name server %s does not say who is in the group: %s", namesrv, fault)
        return None

    async def close(self) -> None:
        await self._pool.close()
