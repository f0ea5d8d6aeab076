"""Apache Kafka as one process, broker and controller in one (KRaft), and Spark's own Kafka source: both from jars.

The server's settings and JVM flags are those of upstream's `config/server.properties` and start script. A topic has
as many partitions as CometMQ's topics have queues.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.original.cache import cache_dir, fingerprint, once, run_tool
from tests.original.jars import class_path, copy_dependencies
from tests.original.ports import free_port
from tests.original.process import BOOT_TIMEOUT_S, HOST, ServerProcess, write_properties

from bench.servers import CannotMeasure
from bench.workloads import QUEUES

KAFKA_VERSION: Final = "4.3.1"
SOURCE_VERSION: Final = "4.2.0"  # the newest that Maven Central has; it runs on Spark 4.3 as it is
KAFKA_JVM: Final = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
                    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent")  # fmt: skip

_CLUSTER_ID: Final = "Y29tZXRtcS1iZW5jaC0wMQ"  # any 16 bytes, as Kafka writes them


@dataclass(frozen=True)
class _Fetched:
    """Jars by the coordinates in NAME-pom.xml."""

    name: str
    label: str
    version: str

    @property
    def pom(self) -> Path:
        return Path(__file__).with_name(f"{self.name}-pom.xml")

    @property
    def entry(self) -> str:
        return f"{self.name}-{self.version}-{fingerprint([self.pom])}"

    def jars(self) -> Path:
        def download(folder: Path) -> None:
            copy_dependencies(self.pom, folder, f"-D{self.name}.version={self.version}")

        return once(self.entry, f"Downloading {self.label} {self.version}", download)


_KAFKA: Final = _Fetched("kafka", "Apache Kafka", KAFKA_VERSION)
_SOURCE: Final = _Fetched("spark-kafka", "Spark's Kafka source", SOURCE_VERSION)


def check_tools(sides: Sequence[str]) -> None:
    """Say early, and in a sentence, what is missing here."""
    if shutil.which("java") is None:
        raise CannotMeasure("java is not on the PATH: Spark needs it; install a JDK, 17 or newer")
    if "kafka" in sides and shutil.which("mvn") is None and not _are_fetched():
        raise CannotMeasure("mvn is not on the PATH: it fetches Apache Kafka once; install Apache Maven, or leave it "
                            "out with --sides comet")  # fmt: skip


def _are_fetched() -> bool:
    return all((cache_dir() / fetched.entry).exists() for fetched in (_KAFKA, _SOURCE))


def kafka_jars() -> Path:
    """The folder with the server's jars; downloads them (44 MB) where they are absent."""
    return _KAFKA.jars()


def source_jars() -> Path:
    """The folder with what Spark needs to read and write Kafka (10 MB)."""
    return _SOURCE.jars()


class KafkaServer(ServerProcess):
    """`with KafkaServer(folder) as kafka:` serves at `kafka.addr`."""

    role = "kafka"
    boot_mark = "Kafka Server started"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, free_port())
        controller = f"{HOST}:{free_port()}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.addr},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.addr}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.dir / "logs",
            "num.partitions": QUEUES,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        }
        self.conf = write_properties(self.dir / "server.properties", settings)

    def start(self, timeout_s: float = BOOT_TIMEOUT_S) -> Self:
        if not (self.dir / "logs").exists():
            run_tool(self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self.conf)), self.dir)
        return super().start(timeout_s)

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self.conf))

    @staticmethod
    def _java(main_class: str, *arguments: str) -> list[str]:
        return ["java", *KAFKA_JVM, "-cp", class_path(kafka_jars()), main_class, *arguments]
