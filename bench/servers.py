"""The sides as processes, with the settings they are measured with.

Both brokers read the same `broker.conf`: upstream's defaults, apart from addresses, paths and the flush mode. The
JVM flags of the original are those of its start scripts with smaller heaps and without AlwaysPreTouch, which would
count the whole heap as used; nothing that speeds it up is left out. `pure` is CometMQ without its compiled extension.
Only one side runs at a time: the others are stopped with SIGSTOP, because an idle JVM broker that was under load keeps
a tenth of a core busy.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from tests.original import CometBroker, CometNamesrv, JavaBroker, JavaNamesrv, free_broker_port, free_port
from tests.original.cache import cache_dir
from tests.original.comet import comet_command
from tests.original.jars import VERSION
from tests.original.process import HOST, BrokerProcess, ServerProcess

SideName = Literal["java", "comet", "pure"]
SIDES: Final[tuple[SideName, ...]] = ("java", "comet", "pure")
LABELS: Final = {"java": f"Apache RocketMQ {VERSION}", "comet": "CometMQ", "pure": "CometMQ, pure Python"}

_G1: Final = ("-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25",
              "-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0")  # fmt: skip
BROKER_JVM: Final = ("-server", "-Xms2g", "-Xmx2g", *_G1)
NAMESRV_JVM: Final = ("-server", "-Xms512m", "-Xmx512m")
CONF: Final = {"mappedFileSizeCommitLog": 1024 * 1024 * 1024}  # upstream's default; the test harness takes less


class CannotMeasure(Exception):
    """Something that the benchmark needs is missing; the message says what to install."""


def check_tools(sides: tuple[SideName, ...]) -> None:
    """Say early, and in a sentence, that a side cannot be started here."""
    if "java" not in sides:
        return
    if shutil.which("java") is None:
        raise CannotMeasure("java is not on the PATH: install a JDK, 17 or newer, or measure with --sides comet")
    if shutil.which("mvn") is None and not (cache_dir() / f"rocketmq-{VERSION}").exists():
        raise CannotMeasure("mvn is not on the PATH: it fetches Apache RocketMQ once; install Apache Maven")


class _Pure(ServerProcess):
    """Run without the compiled extension."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"COMETMQ_PURE": "1"}


class PureNamesrv(_Pure, CometNamesrv):
    pass


class PureBroker(_Pure, CometBroker):
    pass


class Side:
    """A NameServer and a broker of one kind, as two processes."""

    def __init__(
        self,
        name: SideName,
        directory: Path,
        flush: str = "ASYNC_FLUSH",
        conf: Mapping[str, object] = CONF,
    ) -> None:
        self.name = name
        self.namesrv: ServerProcess
        self.broker: BrokerProcess
        if name == "java":
            self.namesrv = JavaNamesrv(directory / "namesrv", jvm=NAMESRV_JVM)
            self.broker = JavaBroker(directory / "broker", [self.namesrv.addr], flush=flush, conf=conf, jvm=BROKER_JVM)
        else:
            namesrv, broker = (PureNamesrv, PureBroker) if name == "pure" else (CometNamesrv, CometBroker)
            self.namesrv = namesrv(directory / "namesrv")
            self.broker = broker(directory / "broker", [self.namesrv.addr], flush=flush, conf=conf)

    @property
    def address(self) -> str:
        return self.broker.addr

    @property
    def namesrv_address(self) -> str:
        return self.namesrv.addr

    @property
    def pids(self) -> tuple[int, ...]:
        return self.namesrv.pid, self.broker.pid

    def start(self) -> None:
        self.namesrv.start()
        self.broker.start()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            os.kill(pid, number)

    def stop(self) -> None:
        self.broker.stop()
        self.namesrv.stop()

    def kill(self) -> None:
        self.broker.kill()
        self.namesrv.kill()


class CometStandalone(ServerProcess):
    """NameServer and broker in one process, as `make run` starts them."""

    role = "standalone"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, free_broker_port())
        self.namesrv_port = free_port()

    @property
    def namesrv_address(self) -> str:
        return f"{HOST}:{self.namesrv_port}"

    def command(self) -> list[str]:
        return comet_command(
            "standalone", "--data", str(self.dir / "data"), "--host", HOST, "--namesrv-port", str(self.namesrv_port),
            "--broker-port", str(self.port), "--proxy-port", "0", "--console-port", "0",
        )  # fmt: skip
