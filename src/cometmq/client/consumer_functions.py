"""Functions that are consumers: `@consumer` says what they hear, `run` lets them hear it.

    @consumer("orders", group="billing", tags="created || paid")
    async def bill(message: ReceivedMessage) -> None: ...

    cometmq.run(bill, ship, namesrv="127.0.0.1:9876")      # a whole program: until Ctrl-C or SIGTERM
    await bill.run(namesrv="127.0.0.1:9876")               # in a program that has a loop of its own
    async with bill.consuming(namesrv=…) as running: ...   # and for tests

The function stays what it was and can be called as before. Functions of one group and one set of options share a
`PushConsumer`, as a group must hear the same topics in each of its members.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Final, Generic, ParamSpec, TypeVar, Unpack

from cometmq.client.listeners import Listener, subscription_data
from cometmq.client.offset_store import StartFrom
from cometmq.client.options import MoreOptions
from cometmq.client.push_consumer import PushConsumer
from cometmq.client.rebalance import AssignmentStrategy
from cometmq.errors import InvalidArgument

P = ParamSpec("P")
R = TypeVar("R")

_SAID_LATER: Final = "127.0.0.1:9876"  # a name server for looking at options: nobody connects to it


class PushOptions(MoreOptions, total=False):
    """The options of a `PushConsumer`, for type checkers; a test holds them together."""

    namesrv: str | Sequence[str] | None
    broadcasting: bool
    orderly: bool
    concurrency: int
    start_from: StartFrom | datetime | str
    max_reconsume_times: int | None
    retry_delay_level: int
    suspend_queue: timedelta
    consume_timeout: timedelta
    stop_timeout_s: float
    pull_batch: int
    queue_messages: int
    queue_bytes: int
    queue_span: int
    strategy: AssignmentStrategy | str | None
    server_assignment: bool
    offset_folder: str | os.PathLike[str] | None
    trace: bool
    spans: bool
    client_id: str | None


class ConsumerFunction(Generic[P, R]):
    """A function with what it is subscribed to."""

    def __init__(
        self,
        function: Callable[P, R],
        topic: str,
        group: str,
        tags: str | Sequence[str] | None,
        sql: str | None,
        batch: int | None,
        options: PushOptions,
    ) -> None:
        # A mistake is told where it was made.
        subscription_data(topic, tags, sql)
        listener: Callable[..., Any] = function
        Listener(listener, batch)
        looked_at: PushOptions = {"namesrv": _SAID_LATER, **options}
        PushConsumer(group, **looked_at)
        self.function = function
        self.topic = topic
        self.group = group
        self.tags = tags
        self.sql = sql
        self.batch = batch
        self.options = options
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "listener")
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @asynccontextmanager
    async def consuming(self, *, namesrv: str | Sequence[str] | None = None) -> AsyncIterator[PushConsumer]:
        """Consume while the block runs."""
        (made,) = consumers_of([self], namesrv)
        async with made:
            yield made

    async def run(self, *, namesrv: str | Sequence[str] | None = None) -> None:
        """Consume until this is cancelled."""
        await run_all([self], namesrv)

    def __repr__(self) -> str:
        return f"<consumer {self.__name__} of {self.topic} in group {self.group}>"


def consumer(
    topic: str,
    *,
    group: str,
    tags: str | Sequence[str] | None = None,
    sql: str | None = None,
    batch: int | None = None,
    **options: Unpack[PushOptions],
) -> Callable[[Callable[P, R]], ConsumerFunction[P, R]]:
    """Make a function the listener of a topic; `options` are those of `PushConsumer`."""

    def made(function: Callable[P, R]) -> ConsumerFunction[P, R]:
        return ConsumerFunction(function, topic, group, tags, sql, batch, options)

    return made


def consumers_of(
    functions: Sequence[ConsumerFunction[..., Any]], namesrv: str | Sequence[str] | None
) -> list[PushConsumer]:
    """One consumer per group, with all its functions."""
    if not functions:
        raise InvalidArgument("there is nothing to run; give functions that are made consumers by @consumer")
    made: dict[str, tuple[PushConsumer, PushOptions, set[str]]] = {}
    for function in functions:
        if not isinstance(function, ConsumerFunction):
            raise InvalidArgument(f"{function!r} is no consumer; put @consumer(topic, group=…) above it")
        options: PushOptions = function.options if namesrv is None else {**function.options, "namesrv": namesrv}
        if function.group not in made:
            made[function.group] = (PushConsumer(function.group, **options), options, set())
        one, known_options, topics = made[function.group]
        if options != known_options:
            raise InvalidArgument(
                f"the functions of group {function.group} have different options; they share a consumer"
            )
        if function.topic in topics:
            raise InvalidArgument(f"two functions of group {function.group} hear {function.topic}; one of them must go")
        topics.add(function.topic)
        one.subscribe(function.topic, function.function, tags=function.tags, sql=function.sql, batch=function.batch)
    return [one for one, _, _ in made.values()]


async def run_all(functions: Sequence[ConsumerFunction[..., Any]], namesrv: str | Sequence[str] | None = None) -> None:
    """Consume with all of them until this is cancelled; then they end in good order."""
    async with AsyncExitStack() as running:
        for one in consumers_of(functions, namesrv):
            await running.enter_async_context(one)
        await asyncio.get_running_loop().create_future()


def run(*functions: ConsumerFunction[..., Any], namesrv: str | Sequence[str] | None = None) -> None:
    """Run a program that consumes: returns when Ctrl-C or SIGTERM has ended it in good order."""
    running = _run_until_told(functions, namesrv)
    try:
        import uvloop
    except ImportError:
        asyncio.run(running)
    else:
        uvloop.run(running)


async def _run_until_told(functions: Sequence[ConsumerFunction[..., Any]], namesrv: str | Sequence[str] | None) -> None:
    running = asyncio.ensure_future(run_all(functions, namesrv))
    loop = asyncio.get_running_loop()
    heeded: list[signal.Signals] = []
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
                loop.add_signal_handler(number, running.cancel)
                heeded.append(number)
        await running
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
