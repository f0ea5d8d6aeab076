"""A NameServer and a broker that registers with it, started and stopped together.

Everything is under one folder: the broker's store is the folder itself, the NameServer's files are in `namesrv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from cometmq.broker.app import Broker, load_settings
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.config import NamesrvConfig

EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass(frozen=True)
class Chosen:
    """What was asked for. What is None is taken from the file, else its default."""

    data: str | None = None
    host: str | None = None
    namesrv_port: int = 9876
    broker_port: int | None = None

    def broker_values(self, file_values: Mapping[str, str]) -> dict[str, str]:
        """Keys of the broker: defaults, then the file, then the flags."""
        values = {"storePathRootDir": "data", **file_values}
        for key, flag in (
            ("storePathRootDir", self.data),
            ("bindAddress", self.host),
            ("listenPort", self.broker_port),
        ):
            if flag is not None:
                values[key] = str(flag)
        values["storePathRootDir"] = str(Path(values["storePathRootDir"]).absolute())
        return values


class Standalone:
    """`await start()`, then `namesrv` and `broker` serve until `await stop()`."""

    def __init__(self, chosen: Chosen, file_values: Mapping[str, str]) -> None:
        self._values = chosen.broker_values(file_values)
        settings = load_settings(self._values)
        self.data = Path(settings.store.store_path_root_dir)
        self.namesrv = NameServer(
            NamesrvConfig(
                bind_address=settings.broker.bind_address,
                listen_port=chosen.namesrv_port,
                kv_config_path=str(self.data / "namesrv" / "kvConfig.json"),
                config_store_path=str(self.data / "namesrv" / "namesrv.properties"),
            )
        )
        self.broker = Broker(settings)
        self._closing = AsyncExitStack()

    async def start(self) -> None:
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.namesrv.stop)
            await self.namesrv.start()
            self.broker = Broker(load_settings({**self._values, "namesrvAddr": self._name_servers()}))
            await self.broker.start()
            closing.push_async_callback(self.broker.stop)
            self._closing = closing.pop_all()

    def _name_servers(self) -> str:
        """Ours, and those that the file names."""
        others = self._values.get("namesrvAddr")
        return f"{self.local_namesrv};{others}" if others else self.local_namesrv

    @property
    def local_namesrv(self) -> str:
        """How the broker reaches the NameServer."""
        host, _, port = self.namesrv.address.rpartition(":")
        host = EVERY_ADDRESS.get(host.strip("[]"), host.strip("[]"))
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def advertised_namesrv(self) -> str:
        """What to tell clients: where the broker's address is reached, the NameServer is too."""
        broker_host, _, _ = self.broker.address.rpartition(":")
        return f"{broker_host}:{self.namesrv.address.rpartition(':')[2]}"

    async def stop(self) -> None:
        """The broker first: it says good-bye to the NameServer."""
        await self._closing.aclose()
