"""How a class without `async` is derived from one with it: declared by its name and the names it offers.

    coroutine                    → waits for its result            asyncio.Future     → concurrent.futures.Future
    async generator              → iterator                        `async with`       → `with`
    plain method, attribute      → the same, asked on the loop     ReceivedMessage    → one whose `ack` waits

Functions that the program gives (`callbacks`) are called in threads, never on the loop: they may block. Signatures for
type checkers are derived from the same declaration, into `__init__.pyi`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from cometmq.blocking.loop_thread import LoopThread, borrow, give_back, running
from cometmq.client import message as sent
from cometmq.errors import ClientClosed

FACES: Final[dict[type, type[Face]]] = {}  # what stands for an object of a class that the program is given


_END: Final = object()

# Arguments that are functions, and whether they must be brought into a thread; else whoever calls them sees to that.
Callbacks = Mapping[str, bool]


class ReceivedMessage(sent.ReceivedMessage):
    """A message as a consumer without `async` sees it."""

    __slots__ = ()

    def ack(self) -> None:  # type: ignore[override]
        """Done with it: it will not come again."""
        running().run(lambda: sent.ReceivedMessage.ack(self))

    def change_invisible(self, duration: timedelta) -> None:  # type: ignore[override]
        """Let it come again `duration` from now, unless it is acknowledged before."""
        running().run(lambda: sent.ReceivedMessage.change_invisible(self, duration))


class Face:
    """The base of all derived classes; `_source` is the class behind, `_callbacks` the program's functions."""

    _source: ClassVar[type]
    _callbacks: ClassVar[Callbacks]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        named = {name: _given(name, value, self._callbacks) for name, value in options.items()}
        self._inner: Any = self._source(*arguments, **named)
        self._thread: LoopThread | None = None
        self._is_owner = True  # of the right to use the thread; others were handed out by an owner
        self._is_closed = False

    @classmethod
    def of(cls, inner: Any, thread: LoopThread) -> Self:
        """The face of an object that exists."""
        made = cls.__new__(cls)
        made._inner, made._thread, made._is_owner, made._is_closed = inner, thread, False, False
        return made

    def _run(self, make: Callable[[], Any]) -> Any:
        """Call something that may return an awaitable, on the loop."""
        thread = self._open()

        async def call() -> Any:
            value = make()
            if inspect.iscoroutine(value):
                value = await value
            return shown(value, thread, self)

        return thread.run(call)

    def _open(self) -> LoopThread:
        if self._thread is None:
            name = type(self).__name__
            how = "closed; make a new one" if self._is_closed else f"not open: use `with {name}(…) as …`"
            raise ClientClosed(f"the {name} is {how}")
        return self._thread

    def start(self) -> Self:
        """What `with` does on entering."""
        if self._thread is not None or self._is_closed:
            raise ClientClosed(f"the {type(self).__name__} is open already, or was; make a new one")
        thread = borrow()
        try:
            thread.run(self._inner.__aenter__)
        except BaseException:
            give_back(thread)
            raise
        thread.clients.add(self._inner)
        self._thread = thread
        return self

    def close(self) -> None:
        """What `with` does on leaving; bounded in time, harmless twice."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        if not self._is_owner:
            self._run(self._inner.__aenter__)
            return self
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread = self._thread
        if thread is None:
            self._is_closed = True
            return
        if not self._is_owner:
            self._run(lambda: self._inner.__aexit__(kind, error, trace))
            return
        if thread.is_foreign:
            return  # the parent's, which closes it
        self._is_closed = True
        try:
            thread.run(lambda: self._inner.__aexit__(kind, error, trace))
        finally:
            self._thread = None
            thread.clients.discard(self._inner)
            give_back(thread)


def shown(value: Any, thread: LoopThread, asked: Face | None = None) -> Any:
    """A value as the program sees it; called on the loop."""
    if value is None or isinstance(value, (int, str)):
        return value
    if asked is not None and value is asked._inner:
        return asked
    kind = type(value)
    if kind is sent.ReceivedMessage:
        value.__class__ = ReceivedMessage
    elif kind is list:
        return [shown(item, thread) for item in value]
    elif kind in FACES:
        return FACES[kind].of(value, thread)
    elif inspect.isasyncgen(value):
        return _iterate(value, thread)
    elif isinstance(value, asyncio.Future):
        return _followed(value)
    elif isinstance(value, AbstractAsyncContextManager):
        return _Context(value, thread)
    return value


def _iterate(messages: AsyncGenerator[Any, Any], thread: LoopThread) -> Generator[Any, None, None]:
    async def step() -> Any:
        return shown(await anext(messages, _END), thread)

    try:
        while (found := thread.run(step)) is not _END:
            yield found
    finally:
        with suppress(ClientClosed):
            thread.run(messages.aclose)


def _followed(future: asyncio.Future[Any]) -> Future[Any]:
    """A future of threads that ends as one of the loop does."""
    follower: Future[Any] = Future()
    follower.set_running_or_notify_cancel()

    def ended(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            follower.set_exception(ClientClosed("cancelled: the client was closed"))
        elif (fault := done.exception()) is not None:
            follower.set_exception(fault)
        else:
            follower.set_result(done.result())

    future.add_done_callback(ended)
    return follower


class _Context(AbstractContextManager[Any, "bool | None"]):
    """`with` for what `async with` is for."""

    def __init__(self, inner: AbstractAsyncContextManager[Any], thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    def __enter__(self) -> Any:
        async def enter() -> Any:
            return shown(await self._inner.__aenter__(), self._thread)

        return self._thread.run(enter)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        async def leave() -> bool | None:
            return await self._inner.__aexit__(kind, error, trace)

        return self._thread.run(leave)


# --- functions that the program gives


def _given(name: str, value: Any, callbacks: Callbacks) -> Any:
    """An argument; a function of the program gets messages as the program knows them, and its own thread."""
    if name not in callbacks or not callable(value) or inspect.iscoroutinefunction(value):
        return value

    @functools.wraps(value)
    def call(*arguments: Any) -> Any:
        thread = running()
        return value(*[shown(argument, thread) for argument in arguments])

    @functools.wraps(value)
    async def call_in_thread(*arguments: Any) -> Any:
        return await asyncio.to_thread(call, *arguments)

    return call_in_thread if callbacks[name] else call


# --- deriving


def derive(name: str, source: type, offers: Sequence[str], *, callbacks: Callbacks, of: str) -> type[Face]:
    """A class `name` of module `of` that offers these methods and attributes of `source`."""
    fields: dict[str, Any] = {"__doc__": source.__doc__, "__module__": of, "__qualname__": name}
    fields |= {"_source": source, "_callbacks": callbacks}
    for offered in offers:
        if offered not in ("start", "close"):
            fields[offered] = _derived(source, offered)
    made = type(name, (Face,), fields)
    FACES[source] = made
    return made


def _derived(source: type, name: str) -> Any:
    found = inspect.getattr_static(source, name, None)
    if not inspect.isfunction(found):
        return property(lambda self: _attribute(self, name), doc=getattr(found, "__doc__", None))
    names = list(inspect.signature(found).parameters)[1:]
    needs_loop = inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found)

    @functools.wraps(found)
    def method(self: Face, *arguments: Any, **options: Any) -> Any:
        bound = getattr(self._inner, name)
        listed = [
            _given(names[at], value, self._callbacks) if at < len(names) else value
            for at, value in enumerate(arguments)
        ]
        named = {option: _given(option, value, self._callbacks) for option, value in options.items()}
        if self._thread is None and not self._is_closed and not needs_loop:
            value = bound(*listed, **named)
            return self if value is self._inner else value
        return self._run(lambda: bound(*listed, **named))

    del method.__wrapped__  # its signature is not this one's: the stub tells
    return method


def _attribute(face: Face, name: str) -> Any:
    if face._thread is None:
        return getattr(face._inner, name)
    return face._run(lambda: getattr(face._inner, name))
