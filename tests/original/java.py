"""Apache RocketMQ's NameServer and broker as processes: 5.5.0, unless an older version is asked for.

Each has its folder as ROCKETMQ_HOME and user.home, so nothing is read from or written to anywhere else.
Mirrors: the upstream `mqnamesrv` and `mqbroker` scripts, less their heap sizes.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .class_archive import archive_flags
from .comet import CometNamesrv
from .jars import MODULE_FLAGS, VERSION, class_path, original_jars
from .ports import free_broker_port, free_port
from .process import HOST, BrokerProcess, ServerProcess, write_properties
from .training import send_and_consume

# Small and quick to start; wrong for measuring speed, so benchmarks pass flags of their own. Nobody here speaks TLS,
# and a server that may be spoken to so makes itself a key first: that takes longer than the rest of its start.
COMPACT_JVM = ("-Xms128m", "-Xmx512m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
               "-Dtls.server.mode=disabled")  # fmt: skip

TRAINING_STOP_S = 120.0

# The original counts the time to its first flush of these figures in a loop that never rests: ten seconds of a core.
RESTING = {"transactionMetricFlushInterval": 500}

LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class JavaNamesrv(ServerProcess):
    """`with JavaNamesrv(folder) as namesrv:` gives a running NameServer at `namesrv.addr`."""

    role = "namesrv"
    boot_mark = "The Name Server boot success"

    def __init__(
        self,
        directory: Path,
        port: int = 0,
        conf: Mapping[str, object] | None = None,
        jvm: Sequence[str] | None = None,
        version: str = VERSION,
    ) -> None:
        super().__init__(directory, port or free_port())
        self.jvm = compact_jvm(version) if jvm is None else jvm
        self.version = version
        settings = {"listenPort": self.port, "bindAddress": HOST, **(conf or {})}
        self.conf = write_properties(self.dir / "namesrv.conf", settings)

    def command(self) -> list[str]:
        startup = "org.apache.rocketmq.namesrv.NamesrvStartup"
        return java_command(self.dir, self.jvm, startup, "-c", str(self.conf), version=self.version)

    def environment(self) -> dict[str, str]:
        return java_environment(self.dir, self.version)


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
        jvm: Sequence[str] | None = None,
        version: str = VERSION,
    ) -> None:
        super().__init__(directory, port or free_broker_port(), store)
        self.jvm = compact_jvm(version) if jvm is None else jvm
        self.version = version
        # Flags of one's own are for measuring, and what is measured is the original as it comes.
        rested = RESTING if jvm is None else {}
        self.conf = self.write_conf(list(namesrv), flush, name, {**rested, **(conf or {})})

    def command(self) -> list[str]:
        startup = "org.apache.rocketmq.broker.BrokerStartup"
        return java_command(self.dir, self.jvm, startup, "-c", str(self.conf), version=self.version)

    def environment(self) -> dict[str, str]:
        return java_environment(self.dir, self.version)


def compact_jvm(version: str = VERSION) -> tuple[str, ...]:
    """The flags of a JVM that starts as quickly as can be, in any of the original's programs."""
    jars = original_jars(version)

    def train(flag: str) -> None:
        # What the others load, a broker loads too.
        with tempfile.TemporaryDirectory() as folder, CometNamesrv(Path(folder) / "namesrv") as namesrv:
            jvm = (*COMPACT_JVM, flag)
            broker = JavaBroker(Path(folder) / "broker", [namesrv.addr], jvm=jvm, version=version)
            try:
                broker.start()
                asyncio.run(send_and_consume(namesrv.addr))
                broker.stop(TRAINING_STOP_S)
            finally:
                broker.kill()

    return (*COMPACT_JVM, *archive_flags(jars, train))


def java_command(
    directory: Path, jvm: Sequence[str], main_class: str, *arguments: str, version: str = VERSION
) -> list[str]:
    """The command line of one of the original's main classes; also good for its `mqadmin`."""
    return ["java", *jvm, *MODULE_FLAGS, f"-Duser.home={directory}", "-cp", class_path(original_jars(version)),
            main_class, *arguments]  # fmt: skip


def java_environment(directory: Path, version: str = VERSION) -> dict[str, str]:
    conf = directory / "conf"
    conf.mkdir(parents=True, exist_ok=True)  # the original wants the folder, not what is in it
    if version.startswith("4."):  # which does not start without these
        for name in ("namesrv", "broker"):
            (conf / f"logback_{name}.xml").write_text(LOGBACK)
    return {**os.environ, "ROCKETMQ_HOME": str(directory)}
