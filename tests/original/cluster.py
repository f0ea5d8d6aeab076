"""One broker and its name servers, of either kind, in one `with`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from .comet import CometBroker, CometNamesrv
from .jars import VERSION
from .java import JavaBroker, JavaNamesrv
from .process import BrokerProcess, ServerProcess

Kind = Literal["java", "comet"]


class Cluster:
    """`with Cluster("comet", folder, namesrvs=2) as cluster:` serves at `cluster.namesrv_addr`."""

    def __init__(
        self,
        kind: Kind,
        directory: Path,
        namesrvs: int = 1,
        flush: str = "ASYNC_FLUSH",
        conf: Mapping[str, object] | None = None,
        version: str = VERSION,
    ) -> None:
        """`version` is that of the original."""
        self.kind = kind
        folders = [directory / f"namesrv-{n}" for n in range(namesrvs)]
        self.namesrvs: list[ServerProcess]
        self.broker: BrokerProcess
        if kind == "java":
            self.namesrvs = [JavaNamesrv(folder, version=version) for folder in folders]
            self.broker = JavaBroker(directory / "broker", self.addrs(), flush=flush, conf=conf, version=version)
        else:
            self.namesrvs = [CometNamesrv(folder) for folder in folders]
            self.broker = CometBroker(directory / "broker", self.addrs(), flush=flush, conf=conf)
        self._running = ExitStack()

    def addrs(self) -> Sequence[str]:
        return [namesrv.addr for namesrv in self.namesrvs]

    @property
    def namesrv_addr(self) -> str:
        """All name servers as clients take them: `host:port;host:port`."""
        return ";".join(self.addrs())

    def __enter__(self) -> Self:
        with ExitStack() as running:
            for namesrv in self.namesrvs:
                running.callback(namesrv.kill)
                namesrv.launch()
            for namesrv in self.namesrvs:
                namesrv.await_boot()
            running.callback(self.broker.kill)
            self.broker.start()
            self._running = running.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A test that wants a clean stop of its broker asks for it; here only the processes have to go.
        self._running.close()
