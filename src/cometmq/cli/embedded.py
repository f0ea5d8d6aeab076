"""A NameServer and a broker inside a command, for as long as it runs: free ports of 127.0.0.1, a temporary store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cometmq.broker.app import Broker, load_settings
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.config import NamesrvConfig

_LOCAL: Final = "127.0.0.1"
_SETTINGS: Final = {
    "bindAddress": _LOCAL,
    "brokerIP1": _LOCAL,
    "listenPort": "0",
    "mappedFileSizeCommitLog": str(16 << 20),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}


@asynccontextmanager
async def embedded_server() -> AsyncIterator[str]:
    """Serve while the block runs; gives the address of the NameServer."""
    async with AsyncExitStack() as closing:
        folder = Path(closing.enter_context(TemporaryDirectory(prefix="cometmq-")))
        namesrv = NameServer(
            NamesrvConfig(
                bind_address=_LOCAL,
                listen_port=0,
                kv_config_path=str(folder / "namesrv" / "kvConfig.json"),
                config_store_path=str(folder / "namesrv" / "namesrv.properties"),
            )
        )
        closing.push_async_callback(namesrv.stop)
        await namesrv.start()
        values = {**_SETTINGS, "storePathRootDir": str(folder / "store"), "namesrvAddr": namesrv.address}
        broker = Broker(load_settings(values))
        closing.push_async_callback(broker.stop)
        await broker.start()
        yield namesrv.address
