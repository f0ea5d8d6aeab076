"""When name servers know a broker."""

from __future__ import annotations

import asyncio
from typing import Unpack

from cometmq.client.instance import ClientInstance
from cometmq.client.options import ClientOptions, MoreOptions
from cometmq.wire.bodies.cluster import decode_cluster_info
from cometmq.wire.requests.namesrv import GetClusterInfo


async def registered(namesrv: str, *, within_s: float = 30, **options: Unpack[MoreOptions]) -> None:
    """Java's broker says that it runs a moment before name servers know it."""
    instance = await ClientInstance.join(ClientOptions.of(namesrv, **options))
    try:
        async with asyncio.timeout(within_s):
            while True:
                if decode_cluster_info((await instance.name_servers.call(GetClusterInfo())).body).brokers:
                    return
                await asyncio.sleep(0.05)
    finally:
        await instance.leave()
