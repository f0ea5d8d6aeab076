"""Asking the name servers, one after the other until one answers; the one that did is asked first next time.

Mirrors: NettyRemotingClient.getAndCreateNameserverChannel, MQClientAPIImpl.getTopicRouteInfoFromNameServer.
"""

from __future__ import annotations

import random

from cometmq.errors import PeerError, PeerRefused, PeerUnreachable
from cometmq.model.route import TopicRoute
from cometmq.net.name_servers import NameServers
from cometmq.net.pool import Pool
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.requests.namesrv import GetRouteInfo
from cometmq.wire.schema import Header


class NameServerCalls:
    """Calls with fail-over."""

    def __init__(self, namesrv: str, pool: Pool, *, timeout_ms: int, connect_timeout_ms: int) -> None:
        is_url = namesrv.startswith(("http://", "https://"))
        self._servers = NameServers("" if is_url else namesrv, address_server=namesrv if is_url else None)
        self._namesrv = namesrv
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._first: str | None = None

    def __str__(self) -> str:
        return ";".join(self._servers.addresses)

    async def refresh(self) -> None:
        """Look the addresses up again, where they are looked up."""
        await self._servers.refresh()

    async def call(self, request: Header) -> Command:
        """What one of them answers; `PeerUnreachable` if none does, `PeerRefused` if one says no."""
        if not self._servers.addresses:
            await self._servers.refresh()
        addresses = list(self._servers.addresses)
        random.shuffle(addresses)  # so that clients spread over them
        addresses.sort(key=lambda address: address != self._first)
        faults: list[str] = []
        for address in addresses:
            try:
                channel = await self._pool.channel(address, timeout_ms=self._connect_timeout_ms)
                answer = await channel.call(request, timeout_ms=self._timeout_ms)
            except PeerRefused as refused:
                if refused.code == ResponseCode.GO_AWAY:
                    self._pool.retire(address, channel)
                elif refused.code != ResponseCode.SYSTEM_ERROR:
                    self._first = address
                    raise
                faults.append(str(refused))
            except PeerError as fault:
                faults.append(str(fault))
            else:
                self._first = address
                return answer
        told = "; ".join(faults) or f"{self._namesrv} tells no address"
        raise PeerUnreachable(f"no name server answers: {told}. Does one run there? (cometmq namesrv, or mqnamesrv)")

    async def route(self, topic: str) -> TopicRoute | None:
        """Where a topic is; None if it is nowhere."""
        try:
            answer = await self.call(GetRouteInfo(topic, accept_standard_json_only=True))
        except PeerRefused as refused:
            if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        return decode_route(answer.body)
