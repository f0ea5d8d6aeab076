"""A server as a process of its own: started, waited for, stopped. The one module that starts processes.

Which program runs is fixed (`standalone/child.py` under the Python that runs us) and no shell is involved: only the
arguments of our own commands are given to it. What it prints goes to a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import sys
from pathlib import Path
from typing import Final

from cometmq.cli.options import own_command
from cometmq.errors import CometError

BOOT_MARK: Final = "boot success"
BOOT_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 40.0
LOOK_EVERY_S: Final = 0.05
LAST_LINES: Final = 5


class ChildFailed(CometError):
    """A process did not begin to serve."""


class Child:
    """One process; `ended` is done when it is gone."""

    def __init__(self, name: str, arguments: list[str], log: Path, folder: Path) -> None:
        self.name = name
        self.arguments = arguments
        self.log = log
        self._folder = folder
        self._log_start = 0
        self._process: asyncio.subprocess.Process | None = None
        self.ended: asyncio.Task[int] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def command(self) -> str:
        """How a person would start it in its folder."""
        return shlex.join([own_command(self._folder), *self.arguments])

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "cometmq.standalone.child",
                *self.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for us; we stop them in order
            )
        self.ended = asyncio.create_task(self._process.wait(), name=f"the end of {self.name}")

    async def booted(self) -> str:
        """The line in which it says that it serves."""
        assert self.ended is not None
        deadline = asyncio.get_running_loop().time() + BOOT_TIMEOUT_S
        while True:
            is_over = self.ended.done()  # before the look, which then sees all that it said
            for line in self._said():
                if BOOT_MARK in line:
                    return line
            if is_over:
                raise ChildFailed(f"{self.name} did not start: it {self.how_it_ended()}.{self.last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise ChildFailed(f"{self.name} did not start within {BOOT_TIMEOUT_S:g} s.{self.last_words()}")
            await asyncio.sleep(LOOK_EVERY_S)

    def how_it_ended(self) -> str:
        code = self.ended.result() if self.ended is not None and self.ended.done() else None
        if code is None:
            return "still runs"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def last_words(self) -> str:
        lines = self._said()[-LAST_LINES:]
        return "".join(f"\n    {line}" for line in lines) + f"\n  All that it said is in {self.log}."

    def _said(self) -> list[str]:
        with open(self.log, "rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").splitlines()

    async def stop(self) -> None:
        """End it cleanly; if that takes too long, at once."""
        if self._process is None or self.ended is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(asyncio.shield(self.ended), STOP_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self.ended
