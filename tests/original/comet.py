"""CometMQ's NameServer and broker as processes, with the interface of their Java twins."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .ports import free_broker_port, free_port
from .process import HOST, BrokerProcess, ServerProcess, write_properties


class CometNamesrv(ServerProcess):
    """`with CometNamesrv(folder) as namesrv:` gives a running NameServer at `namesrv.addr`."""

    role = "namesrv"
    boot_mark = "The Name Server boot success"

    def __init__(self, directory: Path, port: int = 0, conf: Mapping[str, object] | None = None) -> None:
        super().__init__(directory, port or free_port())
        settings = {"listenPort": self.port, "bindAddress": HOST, "kvConfigPath": self.dir / "kvConfig.json"}
        self.conf = write_properties(self.dir / "namesrv.conf", {**settings, **(conf or {})})

    def command(self) -> list[str]:
        return comet_command("namesrv", "-c", str(self.conf))


class CometBroker(BrokerProcess):
    """`with CometBroker(folder, namesrv=[namesrv.addr]) as broker:` gives a running broker at `broker.addr`."""

    boot_mark = "] boot success"

    def __init__(
        self,
        directory: Path,
        namesrv: Sequence[str],
        port: int = 0,
        flush: str = "ASYNC_FLUSH",
        conf: Mapping[str, object] | None = None,
        name: str = "broker-a",
        store: Path | None = None,
    ) -> None:
        super().__init__(directory, port or free_broker_port(), store)
        self.namesrv = list(namesrv)
        self.conf = self.write_conf(self.namesrv, flush, name, conf or {})

    def command(self) -> list[str]:
        return comet_command("broker", "-c", str(self.conf), "-n", ";".join(self.namesrv))


def comet_command(*arguments: str) -> list[str]:
    # Not the `cometmq` script: it may belong to another environment than the Python that runs the tests.
    return [sys.executable, "-u", "-c", "import sys; from cometmq.cli import main; sys.exit(main())", *arguments]
