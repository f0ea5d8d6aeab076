"""Processes that are forked from a Python which has imported everything already, to be killed by the thousand.

A warm broker is started by the same function with the same arguments as any other, in its own process, folder and log.
What it saves are the imports: most of the time of a start, in which a kill shows nothing. So one that comes while the
broker starts comes while it recovers.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any, Final

from tests.original import Child, CometBroker

from cometmq.cli import main

NURSERY: Final = multiprocessing.get_context("forkserver")
NURSERY.set_forkserver_preload(["pytest", "uvloop", "cometmq.cli.broker", __name__])


class Forked:
    """A call in a process of its own, as a `subprocess.Popen` looks; what it prints goes to the end of `log`."""

    def __init__(self, log: str, function: Callable[..., None], *arguments: Any) -> None:
        self._process = NURSERY.Process(target=_run, args=(log, function, *arguments), daemon=True)
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
            raise subprocess.TimeoutExpired("a forked process", timeout)
        return code

    def send_signal(self, number: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(log: str, function: Callable[..., None], *arguments: Any) -> None:
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for standard in (1, 2):
        os.dup2(written, standard)
    sys.stdout, sys.stderr = (os.fdopen(standard, "w", buffering=1, closefd=False) for standard in (1, 2))
    function(*arguments)


class WarmBroker(CometBroker):
    """A `CometBroker` that starts in a fraction of the time."""

    def spawn(self, log: IO[bytes]) -> Child:
        command = self.command()
        return Forked(str(self.log), serve, str(self.dir), command[command.index("broker") :])


def serve(folder: str, arguments: list[str]) -> None:
    os.chdir(folder)
    sys.exit(main(arguments))
