"""A broker process that is forked from a Python which has imported everything already.

It is started by the same function with the same arguments, in its own process, folder and log; what it saves are the
imports, most of a start, in which a kill shows nothing. So a thousand kills take minutes, and one that comes while the
broker starts comes while it recovers.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.context import ForkServerProcess
from typing import IO, Final

from tests.original import CometBroker

NURSERY: Final = multiprocessing.get_context("forkserver")
NURSERY.set_forkserver_preload([__name__, "pytest", "uvloop", "cometmq.cli.broker"])


class WarmBroker(CometBroker):
    """A `CometBroker` that starts in a fraction of the time."""

    def spawn(self, log: IO[bytes]) -> Forked:
        return Forked(self.command()[self.command().index("broker") :], str(self.dir), str(self.log))


class Forked:
    """A child of the nursery, as a `subprocess.Popen` looks."""

    def __init__(self, *arguments: object) -> None:
        self._process: ForkServerProcess = NURSERY.Process(target=run, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None, /) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("broker", timeout)
        return code

    def send_signal(self, number: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(arguments: list[str], folder: str, log: str) -> None:
    """In the new process: become the broker."""
    os.chdir(folder)
    written = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(written, 1)
    os.dup2(written, 2)
    sys.stdout, sys.stderr = (os.fdopen(fd, "w", buffering=1, closefd=False) for fd in (1, 2))
    from cometmq.cli import main

    sys.exit(main(arguments))
