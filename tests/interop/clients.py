"""The client programs in java/ and go/: built once into the cache, then run with a list of scenarios.

A program prints one JSON line per scenario, `{"scenario": ..., "facts": {...}}` or `{..., "error": "..."}`. It runs
many scenarios in a go because starting a JVM takes longer than most of them.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.original import Cluster, require
from tests.original.cache import fingerprint, once, run_tool
from tests.original.jars import class_path, copy_dependencies

HERE = Path(__file__).parent
RUN_TIMEOUT_S = 180
POLL_INTERVAL_S = 0.02

Facts = dict[str, Any]


@dataclass(frozen=True)
class Client:
    """A client library in one version and one way of speaking."""

    name: str
    command: Callable[[Path], list[str]]

    @property
    def prefix(self) -> str:
        """Topics and groups begin with this, so that clients share a broker without meeting."""
        return self.name.replace(".", "_")


def java_client(version: str, *flags: str) -> Callable[[Path], list[str]]:
    def command(home: Path) -> list[str]:
        classes = build_java(version) / "classes"
        return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *flags,
                f"-Duser.home={home}", "-cp", f"{classes}:{class_path(client_jars(version))}",
                "interop.Main"]  # fmt: skip

    return command


def client_jars(version: str) -> Path:
    require("java", "mvn")
    pom = HERE / "java" / "pom.xml"
    entry = f"rocketmq-client-{version}-{fingerprint([pom])}"

    def download(folder: Path) -> None:
        copy_dependencies(pom, folder, f"-Drocketmq.version={version}")

    return once(entry, f"Downloading rocketmq-client {version} and its dependencies", download)


def build_java(version: str) -> Path:
    require("java", "mvn")
    project = HERE / "java"
    key = fingerprint([project / "pom.xml", *project.rglob("*.java")], version)

    def build(folder: Path) -> None:
        run_tool(["mvn", "-B", "-q", "-f", str(project / "pom.xml"), "compile", f"-Drocketmq.version={version}",
                  f"-Dbuild.into={folder}"], cwd=folder)  # fmt: skip

    return once(f"interop-java-{version}-{key}", f"Compiling the test client for rocketmq-client {version}", build)


def go_command(home: Path) -> list[str]:
    require("go")
    project = HERE / "go"
    key = fingerprint([*project.glob("*.go"), project / "go.mod", project / "go.sum"])

    def build(folder: Path) -> None:
        run_tool(["go", "build", "-mod=readonly", "-o", str(folder / "interop"), "."], cwd=project)

    return [str(once(f"interop-go-{key}", "Building the test client on rocketmq-client-go", build) / "interop")]


# The fast port (broker port - 2) and the binary header are each some client's everyday: one variant uses them.
JAVA_CLIENTS = (
    Client("java-5.5.0", java_client("5.5.0")),
    Client("java-5.5.0-binary", java_client("5.5.0", "-Drocketmq.serialize.type=ROCKETMQ")),
    Client("java-4.9.8-fast-port", java_client("4.9.8", "-Dcom.rocketmq.sendMessageWithVIPChannel=true")),
)
GO_CLIENT = Client("go-2.1.2", go_command)
CLIENTS = (*JAVA_CLIENTS, GO_CLIENT)


class Program:
    """One run of a client program against a cluster."""

    def __init__(self, client: Client, cluster: Cluster, scenarios: Sequence[str], home: Path) -> None:
        self.client = client
        home.mkdir(parents=True)
        self.out, self.err = home / "out", home / "err"
        arguments = [cluster.namesrv_addr, cluster.broker.addr, client.prefix, *scenarios]
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self._process = subprocess.Popen(
                [*client.command(home), *arguments], cwd=home, stdin=subprocess.PIPE, stdout=out, stderr=err
            )

    def lines(self) -> list[Facts]:
        # A line without its end is still being written.
        complete = self.out.read_text().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in complete if line.startswith("{")]

    def await_line(self, key: str) -> Facts:
        """Wait for a line that has the key."""
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while time.monotonic() < deadline:
            ended = self._process.poll() is not None
            for line in self.lines():
                if key in line:
                    return line
            if ended:
                break
            time.sleep(POLL_INTERVAL_S)
        raise AssertionError(f"{self.client.name} never said {key!r}. {self.story()}")

    def go_on(self) -> None:
        """Give the word that a scenario in two phases waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def pause(self) -> None:
        """Stop it where it is: its connections stay open, and it says nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def finish(self) -> Outcome:
        """Wait for the end."""
        try:
            self._process.communicate(timeout=RUN_TIMEOUT_S)
        finally:
            self.end()
        return Outcome({line["scenario"]: line for line in self.lines() if "scenario" in line}, self.story())

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def story(self) -> str:
        tail = "\n".join(self.err.read_text(errors="replace").splitlines()[-30:])
        return f"Exit code {self._process.returncode}, last lines of its errors:\n{tail}"


@dataclass(frozen=True)
class Outcome:
    """What a program said about each scenario."""

    lines: dict[str, Facts]
    story: str

    def __getitem__(self, scenario: str) -> Facts:
        line = self.lines.get(scenario)
        if line is None:
            pytest.fail(f"scenario {scenario!r} was not reached. {self.story}", pytrace=False)
        if "error" in line:
            pytest.fail(f"scenario {scenario!r}: {line['error']}. {self.story}", pytrace=False)
        facts: Facts = line["facts"]
        return facts
