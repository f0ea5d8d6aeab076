"""One event loop in one thread, for programs that have none: started with the first client, ended with the last.

Any number of threads may call; each waits for its own result. The thread is of one process: a child of `fork` starts
its own, and never touches its parent's. At the end of the program clients that were left open are closed, within
`EXIT_S`.

Invariants: no call waits for a loop that has ended; `run` is never called on the loop's own thread, which would wait
for itself.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, Final, TypeVar

from cometmq.client.forking import GENERATION, check_process
from cometmq.errors import ClientClosed, ClientError

_T = TypeVar("_T")

EXIT_S: Final = 10.0
_LOOK_S: Final = 1.0  # how often who waits looks whether the loop still runs
_ENDED: Final = "the client was closed by another thread while this call waited"


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    """A thread with a loop; `borrow` gives the one of this process."""

    def __init__(self) -> None:
        self.generation = GENERATION.number
        self.users = 0
        self.clients: set[Any] = set()  # open ones, to be closed at the end of the program
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._main, name="cometmq blocking", daemon=True)
        self._thread.start()
        self._is_up.wait()

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            self._loop = runner.get_loop()
            self._is_up.set()
            self._loop.run_forever()

    @property
    def is_foreign(self) -> bool:
        """Whether it runs in the process that this one was forked from."""
        return self.generation != GENERATION.number

    def run(self, make: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine on the loop and wait for its result; who is interrupted cancels it."""
        check_process(self.generation, "this client")
        loop = self._loop
        if threading.get_ident() == self._thread.ident:
            raise ClientError(
                "a blocking client was called by a function that runs on its own event loop, and would wait for itself"
            )
        if loop is None or not self._thread.is_alive():
            raise ClientClosed("the client is closed; make a new one")
        coroutine = make()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:
            coroutine.close()
            raise ClientClosed(_ENDED) from None
        try:
            while True:
                try:
                    return future.result(_LOOK_S)
                except TimeoutError:
                    if future.done():
                        raise  # it is the coroutine's own
                    if not self._thread.is_alive():
                        raise ClientClosed(_ENDED) from None
        except CancelledError:
            raise ClientClosed(_ENDED) from None
        finally:
            if not future.done():
                future.cancel()

    def end(self) -> None:
        """Stop the loop and wait for the thread."""
        if self.is_foreign or self._loop is None:
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.get_ident() != self._thread.ident:
            self._thread.join(EXIT_S)


class _Current:
    """The thread of this process, if there is one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: LoopThread | None = None


_current = _Current()


def borrow() -> LoopThread:
    """The thread, started if need be, with one user more."""
    with _current.lock:
        if _current.thread is None:
            _current.thread = LoopThread()
        _current.thread.users += 1
        return _current.thread


def give_back(thread: LoopThread) -> None:
    """One user less; the last one ends it."""
    if thread.is_foreign:
        return
    with _current.lock:
        thread.users -= 1
        if thread.users > 0:
            return
        if _current.thread is thread:
            _current.thread = None
    thread.end()


def running() -> LoopThread:
    """The thread, where one runs already."""
    thread = _current.thread
    if thread is None:
        raise ClientClosed("the client that this came from is closed, or belongs to the parent of this process")
    return thread


def _forked() -> None:
    """In the child: the lock may be held by a thread that is not here, and the loop runs in the parent."""
    _current.__init__()  # type: ignore[misc]


def _at_exit() -> None:
    thread = _current.thread
    if thread is None or thread.is_foreign:
        return

    async def close_all() -> None:
        async with asyncio.timeout(EXIT_S):
            await asyncio.gather(*[client.close() for client in list(thread.clients)], return_exceptions=True)

    with contextlib.suppress(Exception):
        thread.run(close_all)
    thread.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
atexit.register(_at_exit)
