"""What the broker does on the side, each job at its own pace; a job that fails is logged and comes round again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

log = logging.getLogger("cometmq.broker")

PAUSE_S_MIN: Final = 0.01  # a period of 0 in a file must not take the whole loop


@dataclass(frozen=True)
class Job:
    """A name for the log, the pause between runs, and what is done."""

    name: str
    every_s: float
    run: Callable[[], Awaitable[object] | object]


class Housekeeping:
    """Runs the jobs until closed."""

    def __init__(self, jobs: list[Job]) -> None:
        self._tasks = [asyncio.create_task(self._repeat(job), name=job.name) for job in jobs]

    async def _repeat(self, job: Job) -> None:
        while True:
            await asyncio.sleep(max(job.every_s, PAUSE_S_MIN))
            try:
                done = job.run()
                if isinstance(done, Awaitable):
                    await done
            except Exception:
                log.exception("%s failed; it runs again in %g s", job.name, job.every_s)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
