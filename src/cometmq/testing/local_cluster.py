"""A cluster in the test's own process: `async with LocalCluster() as cluster`, up in a fraction of a second.

    async with LocalCluster() as cluster:
        async with Producer("tests", namesrv=cluster.namesrv) as producer: ...

Ports are free ones, the store is a temporary folder that goes with the cluster, everything listens on 127.0.0.1.
Segments are small, delay levels short (`DELAY_LEVELS`), and a consumer of a new group begins with the first message.
Settings are the broker's own keys: `LocalCluster({"enablePropertyFilter": "true"})`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cometmq.broker.app import Broker, load_settings
from cometmq.model.sysflag import READ_WRITE
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.pool import connect
from cometmq.wire.requests.admin import CreateTopic

DELAY_LEVELS: Final = "1s 2s 3s 4s 5s 6s 7s 8s 9s 10s 11s 12s 13s 14s 15s 16s 17s 18s"
SETTINGS: Final = {
    "brokerName": "broker-a",
    "bindAddress": "127.0.0.1",
    "brokerIP1": "127.0.0.1",
    "enablePropertyFilter": "true",
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": str(16 << 20),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "messageDelayLevel": DELAY_LEVELS,
    "recallMessageEnable": "true",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
}


class LocalCluster:
    """A name server and brokers (`broker-a`, `broker-b`, …) that live as long as the `async with`."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, brokers: int = 1) -> None:
        self._settings = dict(settings or {})
        self._count = brokers
        self._folder = ""
        self._closing = AsyncExitStack()
        self._ports: dict[int, int] = {}
        self.name_server = NameServer()
        self.brokers: list[Broker] = []

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as closing:
            self._folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="cometmq-"))
            self.name_server = NameServer(self._namesrv_config(0))
            closing.push_async_callback(self.stop_name_server)
            await self.name_server.start()
            closing.push_async_callback(self._stop_brokers)
            for number in range(self._count):
                self.brokers.append(await self._start_broker(number))
            self._closing = closing.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    @property
    def namesrv(self) -> str:
        """What clients take as `namesrv`."""
        return self.name_server.address

    @property
    def broker(self) -> Broker:
        """The first, mostly the only one."""
        return self.brokers[0]

    async def create_topic(self, topic: str, queues: int = 4, *, attributes: str | None = None) -> None:
        """Make a topic on every broker; name servers know it when this returns."""
        for broker in self.brokers:
            channel = await connect(broker.address)
            try:
                await channel.call(CreateTopic(topic, queues, queues, READ_WRITE, "SINGLE_TAG", attributes=attributes))
            finally:
                channel.close()

    async def stop_broker(self, number: int = 0) -> None:
        """Stop one cleanly; its store stays."""
        await self.brokers[number].stop()

    async def start_broker(self, number: int = 0) -> None:
        """Start one again, on its port and store."""
        self.brokers[number] = await self._start_broker(number)

    async def stop_name_server(self) -> None:
        await self.name_server.stop()

    async def start_name_server(self) -> None:
        """Start it again on its port; brokers register with their next turn (`registerNameServerPeriod`)."""
        self.name_server = NameServer(self._namesrv_config(int(self.namesrv.rpartition(":")[2])))
        await self.name_server.start()

    def _namesrv_config(self, port: int) -> NamesrvConfig:
        folder = Path(self._folder) / "namesrv"
        return NamesrvConfig(
            bind_address="127.0.0.1",
            listen_port=port,
            kv_config_path=str(folder / "kvConfig.json"),
            config_store_path=str(folder / "namesrv.properties"),
        )

    async def _start_broker(self, number: int) -> Broker:
        own = {
            "brokerName": f"broker-{chr(ord('a') + number)}",
            "storePathRootDir": str(Path(self._folder) / f"broker-{number}"),
            "listenPort": str(self._ports.get(number, 0)),
            "namesrvAddr": self.namesrv,
        }
        broker = Broker(load_settings({**SETTINGS, **own, **self._settings}))
        await broker.start()
        self._ports[number] = broker.port
        return broker

    async def _stop_brokers(self) -> None:
        for broker in self.brokers:
            await broker.stop()
