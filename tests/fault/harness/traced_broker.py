"""A broker process one of whose system calls fails, by `strace`: the real process, the real kernel."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

from tests.original import Child, CometBroker, ServerFailed

from .capabilities import needs
from .warm import WarmBroker

# What the store does to its disk: to append and to flush, to roll files, to save tables, to delete.
CALLS: Final = ("pwrite64", "pwritev", "fdatasync", "fsync", "ftruncate", "fallocate", "rename", "unlink", "openat")
ERRORS: Final = ("EIO", "ENOSPC", "EINTR", "EDQUOT")
SHORT: Final = "short write"
NAMES: Final = {"pwritev": "pwritev,pwritev2"}  # as the kernel has them
ATTACHED_WITHIN_S: Final = 30.0


class Fault(NamedTuple):
    """One failing call."""

    call: str
    error: str
    number: int  # which of each thread's calls

    def options(self, store: Path) -> list[str]:
        """For strace. Of openings only those of the store's files: the interpreter has thousands of its own."""
        calls = NAMES.get(self.call, self.call)
        # The bytes of a short write are not written at all; who believes its count leaves a hole.
        how = "retval=7" if self.error == SHORT else f"error={self.error}"
        paths = written_by(store) if self.call == "openat" else []
        return [
            *(option for path in paths for option in ("-P", str(path))),
            "-e",
            f"trace={calls}",
            "-e",
            f"inject={calls}:{how}:when={self.number}",
        ]


def kinds() -> list[tuple[str, str]]:
    """Every call with every way in which it may fail."""
    found = [(call, error) for call in CALLS for error in ERRORS]
    return [*found, ("pwrite64", SHORT), ("pwritev", SHORT), ("openat", "EMFILE")]


def written_by(store: Path) -> list[Path]:
    """Some of the files, those that come to be under load."""
    segments = [store / "commitlog" / f"{number * 64 * 1024:020d}" for number in range(64)]
    queues = [
        store / "consumequeue" / "faults" / str(queue) / f"{number * 2000:020d}"
        for queue in range(4)
        for number in range(32)
    ]
    tables = [store / "config" / f"{name}.json.tmp" for name in ("topics", "consumerOffset")]
    return [*segments, *queues, *tables, store / "commitlog", store / "config", store / "index"]


class TracedBroker(WarmBroker):
    """While `fault` is set, a start has this call fail; `-D` leaves the broker our own child, to be killed as usual."""

    def __init__(self, directory: Path, *, flush: str, conf: Mapping[str, object]) -> None:
        needs("strace")
        super().__init__(directory, [], flush=flush, conf=conf)
        self.fault: Fault | None = None
        self.trace = self.dir / "strace.log"
        self.pid_traced = 0

    def command(self) -> list[str]:
        command = super().command()
        if self.fault is None:
            return command
        strace = ["strace", "-D", "-f", "--seccomp-bpf", "-q", "-o", str(self.trace)]
        return [*strace, *self.fault.options(self.store), *command]

    def spawn(self, log: IO[bytes]) -> Child:
        return super().spawn(log) if self.fault is None else CometBroker.spawn(self, log)

    def launch(self) -> Self:
        super().launch()
        self.pid_traced = self.pid
        return self

    @asynccontextmanager
    async def failing(self, fault: Fault) -> AsyncIterator[None]:
        """From now on the call fails, until the broker is killed."""
        told = self.dir / "strace.err"
        strace = self._trace(fault, told)
        try:
            async with asyncio.timeout(ATTACHED_WITHIN_S):
                while " attached" not in told.read_text():
                    if strace.poll() is not None:
                        raise ServerFailed(f"strace ended: {told.read_text()}")
                    await asyncio.sleep(0.01)
            yield
        finally:
            self.kill()
            await asyncio.to_thread(strace.wait, ATTACHED_WITHIN_S)

    def _trace(self, fault: Fault, told: Path) -> subprocess.Popen[bytes]:
        command = ["strace", "-f", "-o", str(self.trace), *fault.options(self.store), "-p", str(self.pid)]
        with told.open("wb") as errors:
            return subprocess.Popen(command, stderr=errors)

    async def await_injected(self, within_s: float) -> None:
        """Until the call has failed, or so long."""
        deadline = time.monotonic() + within_s
        while not self.injected and time.monotonic() < deadline:  # noqa: ASYNC110 (another process has no event)
            await asyncio.sleep(0.02)

    @property
    def injected(self) -> bool:
        """Whether the call was made to fail by now."""
        return self.trace.exists() and "(INJECTED)" in self.trace.read_text(errors="replace")

    async def was_injected(self) -> bool:
        """The same of a broker that is gone; strace writes down its end a moment after it."""
        for _ in range(500):
            text = self.trace.read_text() if self.trace.exists() else ""
            if f"{self.pid_traced} +++" in text:
                break
            await asyncio.sleep(0.02)
        return self.injected
