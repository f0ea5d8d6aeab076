"""Run a server until it is told to stop.

SIGINT (Ctrl-C) and SIGTERM stop it cleanly, also while it starts; a second Ctrl-C ends the process at once.
uvloop drives it where it is installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Callable
from typing import Final, Protocol

log = logging.getLogger("cometmq")

EXIT_INTERRUPTED: Final = 130
COLLECT_AFTER: Final = 50_000  # new objects between two looks; Python's own number is 700


class Service(Protocol):
    """Something that starts and stops."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def serve(service: Service, announce: Callable[[], None]) -> int:
    """Start, announce, wait for a signal, stop."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(service, announce))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return new_event_loop


def _spare_the_collector() -> None:
    """What stands after the start stays; messages make no cycles, so looking for some may wait for many objects."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)


async def _serve(service: Service, announce: Callable[[], None]) -> None:
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, asked_to_stop.set)
    loop.add_signal_handler(signal.SIGINT, _interrupted, asked_to_stop)
    starting = loop.create_task(service.start())
    stopping = loop.create_task(asked_to_stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
            _spare_the_collector()
            announce()
            await stopping
    finally:
        stopping.cancel()
        await service.stop()


def _interrupted(asked_to_stop: asyncio.Event) -> None:
    if asked_to_stop.is_set():
        os._exit(EXIT_INTERRUPTED)
    asked_to_stop.set()
