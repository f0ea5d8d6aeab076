"""A broker process one of whose system calls fails, by `strace`: the real process, the real kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final, Self

from tests.original import Child, CometBroker

from .capabilities import needs
from .warm import WarmBroker

# What the store does to its disk; opening is left out, for the interpreter opens thousands of files of its own.
CALLS: Final = ("pwrite64", "fdatasync", "fsync", "ftruncate", "fallocate", "rename")
ERRORS: Final = ("EIO", "ENOSPC", "EINTR", "EDQUOT")


class TracedBroker(WarmBroker):
    """While `fault` is set, a start has this call fail; `-D` leaves the broker our own child, to be killed as usual."""

    def __init__(self, directory: Path, *, flush: str, conf: Mapping[str, object]) -> None:
        needs("strace")
        super().__init__(directory, [], flush=flush, conf=conf)
        self.fault: tuple[str, str, int] | None = None  # call, error, which of each thread's calls
        self.trace = self.dir / "strace.log"
        self.pid_traced = 0

    def command(self) -> list[str]:
        command = super().command()
        if self.fault is None:
            return command
        call, error, number = self.fault
        inject = f"inject={call}:error={error}:when={number}"
        return [
            "strace",
            "-D",
            "-f",
            "--seccomp-bpf",
            "-q",
            "-o",
            str(self.trace),
            "-e",
            f"trace={call}",
            "-e",
            inject,
            *command,
        ]

    def spawn(self, log: IO[bytes]) -> Child:
        return super().spawn(log) if self.fault is None else CometBroker.spawn(self, log)

    def launch(self) -> Self:
        super().launch()
        self.pid_traced = self.pid
        return self

    async def was_injected(self) -> bool:
        """Whether the call was made to fail; strace writes down its end a moment after the broker's."""
        for _ in range(500):
            text = self.trace.read_text() if self.trace.exists() else ""
            if f"{self.pid_traced} +++" in text:
                break
            await asyncio.sleep(0.02)
        return "(INJECTED)" in text
