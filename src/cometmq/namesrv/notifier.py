"""Tells brokers that the smallest id of their group changed; nobody waits for it.

Mirrors: RouteInfoManager.notifyMinBrokerIdChanged.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cometmq.errors import PeerError
from cometmq.namesrv.brokers import Notice
from cometmq.net.pool import Pool

log = logging.getLogger("cometmq.namesrv")

CONNECT_TIMEOUT_MS: Final = 300
UNDER_WAY_MAX: Final = 1_000


class Notifier:
    """Sends notices over connections of its own."""

    def __init__(self) -> None:
        self._pool = Pool()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, notices: list[Notice]) -> None:
        for notice in notices:
            for addr in notice.addrs:
                if len(self._tasks) >= UNDER_WAY_MAX:
                    log.warning("%s was not told of its new smallest broker id: too many notices wait", addr)
                    continue
                task = asyncio.get_running_loop().create_task(self._tell(addr, notice))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _tell(self, addr: str, notice: Notice) -> None:
        try:
            channel = await self._pool.channel(addr, timeout_ms=CONNECT_TIMEOUT_MS)
            channel.notify(notice.message)
        except PeerError as failed:
            log.warning("%s was not told of its new smallest broker id: %s", addr, failed)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.close()
