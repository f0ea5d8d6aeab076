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
import sys
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from cometmq.cli import EXIT_INTERRUPTED

log = logging.getLogger("cometmq")

COLLECT_AFTER: Final = 50_000  # new objects between two looks; Python's own number is 700
SWITCH_S: Final = 0.0005  # so long a thread that reads old messages may keep the loop waiting; else 5 ms


class Service(Protocol):
    """Something that starts and stops."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def serve(service: Service, announce: Callable[[], None], ended: Callable[[], Awaitable[None]] | None = None) -> int:
    """Start, announce, wait for a signal, stop. A service that may end by itself has `ended`; then the code is 1."""
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(service, announce, ended or asyncio.Event().wait))


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


async def _serve(service: Service, announce: Callable[[], None], ended: Callable[[], Awaitable[object]]) -> int:
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, asked_to_stop.set)
    loop.add_signal_handler(signal.SIGINT, _interrupted, asked_to_stop)
    starting = loop.create_task(service.start())
    stopping = loop.create_task(asked_to_stop.wait())
    ending = asyncio.ensure_future(ended())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
            _spare_the_collector()
            announce()
            await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
        return 0 if asked_to_stop.is_set() else 1
    finally:
        stopping.cancel()
        ending.cancel()
        await service.stop()


def _interrupted(asked_to_stop: asyncio.Event) -> None:
    if asked_to_stop.is_set():
        os._exit(EXIT_INTERRUPTED)
    asked_to_stop.set()
