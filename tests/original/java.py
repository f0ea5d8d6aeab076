"""Apache RocketMQ 5.5.0's NameServer and broker as processes.

Each has its folder as ROCKETMQ_HOME and user.home, so nothing is read from or written to anywhere else.
Mirrors: the upstream `mqnamesrv` and `mqbroker` scripts, less their heap sizes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .jars import MODULE_FLAGS, class_path, original_jars
from .ports import free_broker_port, free_port
from .process import HOST, BrokerProcess, ServerProcess, write_properties

# Small and quick to start; wrong for measuring speed, so benchmarks pass flags of their own.
COMPACT_JVM = ("-Xms128m", "-Xmx512m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class JavaNamesrv(ServerProcess):
    """`with JavaNamesrv(folder) as namesrv:` gives a running NameServer at `namesrv.addr`."""

    role = "namesrv"
    boot_mark = "The Name Server boot success"

    def __init__(
        self,
        directory: Path,
        port: int = 0,
        conf: Mapping[str, object] | None = None,
        jvm: Sequence[str] = COMPACT_JVM,
    ) -> None:
        super().__init__(directory, port or free_port())
        self.jvm = jvm
        settings = {"listenPort": self.port, "bindAddress": HOST, **(conf or {})}
        self.conf = write_properties(self.dir / "namesrv.conf", settings)

    def command(self) -> list[str]:
        return java_command(self.dir, self.jvm, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(self.conf))

    def environment(self) -> dict[str, str]:
        return java_environment(self.dir)


class JavaBroker(BrokerProcess):
    """`with JavaBroker(folder, namesrv=[namesrv.addr]) as broker:` gives a running broker at `broker.addr`."""

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
        jvm: Sequence[str] = COMPACT_JVM,
    ) -> None:
        super().__init__(directory, port or free_broker_port(), store)
        self.jvm = jvm
        self.conf = self.write_conf(list(namesrv), flush, name, conf or {})

    def command(self) -> list[str]:
        return java_command(self.dir, self.jvm, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(self.conf))

    def environment(self) -> dict[str, str]:
        return java_environment(self.dir)


def java_command(directory: Path, jvm: Sequence[str], main_class: str, *arguments: str) -> list[str]:
    """The command line of one of the original's main classes; also good for its `mqadmin`."""
    return ["java", *jvm, *MODULE_FLAGS, f"-Duser.home={directory}", "-cp", class_path(original_jars()), main_class,
            *arguments]  # fmt: skip


def java_environment(directory: Path) -> dict[str, str]:
    (directory / "conf").mkdir(parents=True, exist_ok=True)  # the original wants the folder, not what is in it
    return {**os.environ, "ROCKETMQ_HOME": str(directory)}
