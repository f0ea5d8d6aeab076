"""A NameServer, wired: tables, handlers, a listening socket, and the scan for silent brokers.

Mirrors: NamesrvController.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, cast

from cometmq.clock import Clock, SystemClock
from cometmq.config import section, unknown_keys
from cometmq.namesrv.config import NamesrvConfig
from cometmq.namesrv.handlers.brokers import BrokerHandlers
from cometmq.namesrv.handlers.settings import KvHandlers, SettingsHandlers
from cometmq.namesrv.handlers.topics import RouteHandlers, TopicAdminHandlers, TopicListHandlers
from cometmq.namesrv.kv import KvTable
from cometmq.namesrv.notifier import Notifier
from cometmq.namesrv.route_table import RouteTable
from cometmq.namesrv.settings import Settings
from cometmq.net.channel import Channel
from cometmq.net.routes import Routes, send_away
from cometmq.net.server import Server, bind

log = logging.getLogger("cometmq.namesrv")

SCAN_INTERVAL_MS_MIN: Final = 100


class NameServer:
    """`await start()`, then it serves at `address` until `await stop()`."""

    def __init__(
        self,
        config: NamesrvConfig | None = None,
        *,
        clock: Clock | None = None,
        file_values: Mapping[str, str] | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._clock = clock
        self.settings = Settings(config or NamesrvConfig(), file_values)
        self.table = RouteTable(self.settings)
        self.kv = KvTable(self.settings.current.kv_config_path)
        self._notifier = Notifier()
        self._routes = Routes()
        self._routes.add(
            BrokerHandlers(self.table, self.kv, self.settings, clock, self._notifier.send),
            RouteHandlers(self.table, self.kv, self.settings, clock),
            TopicListHandlers(self.table, self.settings),
            TopicAdminHandlers(self.table),
            KvHandlers(self.kv),
            SettingsHandlers(self.settings),
        )
        self._server: Server | None = None
        self._scan: asyncio.TimerHandle | None = None
        self.address = ""

    async def start(self) -> None:
        config = self.settings.current
        self.kv.load()
        sock = bind(config.bind_address, config.listen_port)
        host, port = config.bind_address, sock.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._server = Server(
            self._routes.answer, on_close=self._lost, idle_s=config.server_channel_max_idle_time_seconds
        )
        await self._server.listen(sock)
        self._scan_later()

    def _scan_later(self) -> None:
        interval_ms = max(self.settings.current.scan_not_active_broker_interval, SCAN_INTERVAL_MS_MIN)
        self._scan = asyncio.get_running_loop().call_later(interval_ms / 1000, self._scan_now)

    def _scan_now(self) -> None:
        self.expire()
        self._scan_later()

    def expire(self) -> None:
        """Drop the brokers that were silent too long, and close their connections."""
        connections, notices = self.table.expire(self._clock.monotonic_ms())
        self._notifier.send(notices)
        for connection in connections:
            cast(Channel, connection).close("the broker was silent too long")

    def _lost(self, channel: Channel) -> None:
        if self._scan is not None:
            self._notifier.send(self.table.lost(channel))

    async def stop(self) -> None:
        config = self.settings.current
        if self._server is not None and config.enable_shutdown_gracefully:
            await self._server.drain(send_away, config.shutdown_wait_time_seconds)
        if self._scan is not None:
            self._scan.cancel()
            self._scan = None
        if self._server is not None:
            await self._server.close()
        await self._routes.close()
        await self._notifier.close()


def load(values: Mapping[str, str], config_path: str | None = None) -> NameServer:
    """A NameServer from the keys of a file and of flags; warns about keys that nothing reads."""
    for warning in unknown_keys(values, [NamesrvConfig]):
        log.warning("%s", warning)
    if config_path is not None:
        values = {**values, "configStorePath": config_path}
    return NameServer(section(NamesrvConfig, values), file_values=values)
