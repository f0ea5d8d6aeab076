"""A standalone Spark cluster: a master and two workers as processes, with the Spark that PySpark brings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from tests.original.ports import free_port
from tests.spark.sessions import QUICK_JVM

WAIT_S = 120.0


class SparkCluster:
    """Where it is, and its executors."""

    def __init__(self, url: str, workers: list[int]) -> None:
        self.url = url
        self._workers = workers

    def executors(self) -> list[int]:
        """The processes that run tasks now."""
        return [
            pid for pid, parent, command in processes() if parent in self._workers and b"ExecutorBackend" in command
        ]


def processes() -> Iterator[tuple[int, int, bytes]]:
    """Number, parent and command line of every process."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                yield int(folder.name), parent, (folder / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
    }


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Two workers with one core each."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        _start(running, folder, "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        _await(port)
        sizes = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0")
        workers = [
            _start(running, folder, "worker.Worker", *sizes, "--work-dir", str(folder / f"worker-{number}"), url)
            for number in range(2)
        ]
        yield SparkCluster(url, workers)


def _start(running: ExitStack, folder: Path, name: str, *arguments: str) -> int:
    """Start one in a group of its own, with which its executors end."""
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip

    def end() -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    running.callback(end)
    return process.pid


def _await(port: int) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline_s, "the master of Spark does not answer"
            time.sleep(0.1)
        else:
            return
