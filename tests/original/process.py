"""A server as a process: start it, wait for its boot line, stop it cleanly, kill it, and tell why when it fails.

A process may be started again after `stop` or `kill`: the port, the folder and the configuration stay, so a test of
recovery is `broker.kill(); broker.start()`. Whatever still runs when Python ends is killed; where Python itself is
killed, the servers die with it as long as the signal goes to the process group, as Ctrl-C and `timeout` send it.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

HOST = "127.0.0.1"
BOOT_TIMEOUT_S = 180.0  # a crowded machine needs more than one minute for a Java broker
STOP_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.02
LOG_TAIL_LINES = 40

_running: weakref.WeakSet[ServerProcess] = weakref.WeakSet()


class ServerFailed(RuntimeError):
    """A server did not start or did not stop; the message ends with the last lines of its log."""


class Child(Protocol):
    """What is used of a `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None, /) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def kill(self) -> None: ...


class ServerProcess:
    """One server process; subclasses say which command starts it and which line says that it serves."""

    role = "server"
    boot_mark = "boot success"

    def __init__(self, directory: Path, port: int) -> None:
        self.dir = directory
        self.port = port
        self.dir.mkdir(parents=True, exist_ok=True)
        self.log = self.dir / f"{self.role}.log"
        self._process: Child | None = None
        self._log_start = 0

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    @property
    def addr(self) -> str:
        """What a client connects to."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed(f"the {self.role} in {self.dir} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> Self:
        """Start the process without waiting for it; `await_boot` waits."""
        if self.running:
            raise ServerFailed(f"the {self.role} in {self.dir} already runs as pid {self.pid}")
        with open(self.log, "ab") as log:
            self._log_start = log.tell()
            self._process = self.spawn(log)
        _running.add(self)
        return self

    def spawn(self, log: IO[bytes]) -> Child:
        return subprocess.Popen(
            self.command(), cwd=self.dir, env=self.environment(), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def await_boot(self, timeout_s: float = BOOT_TIMEOUT_S) -> Self:
        """Wait until the boot line is in the log."""
        deadline = time.monotonic() + timeout_s
        while self.boot_mark not in self.output():
            if not self.running:
                raise ServerFailed(f"the {self.role} ended while it started{self._exit_code()}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"the {self.role} did not start within {timeout_s} s\n{self.log_tail()}")
            time.sleep(POLL_INTERVAL_S)
        return self

    def start(self, timeout_s: float = BOOT_TIMEOUT_S) -> Self:
        return self.launch().await_boot(timeout_s)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End it cleanly (SIGTERM) and wait until it is gone; without effect where it does not run."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise ServerFailed(
                    f"the {self.role} did not stop within {timeout_s} s of SIGTERM\n{self.log_tail()}"
                ) from None
        self._forget()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would; without effect where it does not run."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._forget()

    def output(self) -> str:
        """What it printed since its last start."""
        with open(self.log, "rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def log_tail(self) -> str:
        # Java's logging library reports on its own set-up in hundreds of lines.
        lines = [line for line in self.output().splitlines() if "|-INFO in " not in line][-LOG_TAIL_LINES:]
        return "\n".join([f"--- last lines of {self.log} ---", *(lines or ["(nothing printed)"])])

    def _exit_code(self) -> str:
        return "" if self._process is None else f" (exit code {self._process.returncode})"

    def _forget(self) -> None:
        self._process = None
        _running.discard(self)

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A test that failed has its own story to tell; a slow goodbye must not hide it.
        if kind is None:
            self.stop()
        else:
            self.kill()


class BrokerProcess(ServerProcess):
    """A broker process of either kind; both read the same `broker.conf`."""

    role = "broker"

    def __init__(self, directory: Path, port: int, store: Path | None) -> None:
        super().__init__(directory, port)
        self.store = store or directory / "store"

    @property
    def fast_addr(self) -> str:
        """Its second door, for those who send."""
        return f"{HOST}:{self.port - 2}"

    def write_conf(self, namesrv: list[str], flush: str, name: str, conf: Mapping[str, object]) -> Path:
        """Write `broker.conf` into the folder; `conf` overrides everything else."""
        return write_properties(
            self.dir / "broker.conf",
            {
                "brokerClusterName": "DefaultCluster",
                "brokerName": name,
                "brokerId": 0,
                "brokerIP1": HOST,
                "brokerIP2": HOST,
                "bindAddress": HOST,
                "listenPort": self.port,
                "namesrvAddr": ";".join(namesrv),
                "storePathRootDir": self.store,
                "storePathCommitLog": self.store / "commitlog",
                "mappedFileSizeCommitLog": 64 * 1024 * 1024,
                "flushDiskType": flush,
                **conf,
            },
        )


def write_properties(path: Path, values: Mapping[str, object]) -> Path:
    """Write a file in Java's properties format; booleans as Java spells them."""
    spelled = {key: str(value).lower() if isinstance(value, bool) else value for key, value in values.items()}
    path.write_text("".join(f"{key}={value}\n" for key, value in spelled.items()))
    return path


@atexit.register
def _kill_leftovers() -> None:
    for server in list(_running):
        server.kill()
