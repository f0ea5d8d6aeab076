"""The functions that a program gives to a push consumer, and how they are called.

A listener is a coroutine function, which is awaited on the loop, or a plain one, which runs in a thread. It takes a
message, or with `batch` a list of up to so many. Returning means done, raising means again: `RetryLater` says when.

Mirrors: MessageListenerConcurrently, MessageListenerOrderly.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from cometmq.client.message import ReceivedMessage
from cometmq.client.wanted import subscription
from cometmq.errors import InvalidArgument
from cometmq.model.subscription import SubscriptionData

OneListener = Callable[[ReceivedMessage], Awaitable[Any] | Any]
BatchListener = Callable[[Sequence[ReceivedMessage]], Awaitable[Any] | Any]


class Listener:
    """A function with the way to call it."""

    __slots__ = ("batch", "function", "is_async", "takes_list")

    def __init__(self, function: OneListener | BatchListener, batch: int | None) -> None:
        if not callable(function):
            raise InvalidArgument(f"a listener is a function, not {type(function).__name__}")
        if batch is not None and batch < 1:
            raise InvalidArgument(f"batch is {batch}; it must be at least 1")
        self.function: Callable[[Any], Any] = function
        self.is_async = _is_async(function)
        self.takes_list = batch is not None
        self.batch = batch or 1

    async def hear(self, messages: list[ReceivedMessage], pool: Executor, left: list[asyncio.Future[Any]]) -> None:
        """Call it; what it raises is raised. Who is cancelled while a thread runs finds that in `left`."""
        argument: Any = messages if self.takes_list else messages[0]
        if self.is_async:
            await self.function(argument)
            return
        in_context = contextvars.copy_context().run  # so that a thread sees what is around it, as a span
        in_thread = asyncio.get_running_loop().run_in_executor(pool, in_context, self.function, argument)
        try:
            result = await asyncio.shield(in_thread)
        except asyncio.CancelledError:
            if not in_thread.done():
                in_thread.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else looks
                left.append(in_thread)
            raise
        if inspect.isawaitable(result):  # a plain function that calls an async one, as a lambda does
            await result


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a consumer wants of a topic, and who hears it; the retry topic has no listener of its own."""

    data: SubscriptionData
    listener: Listener | None

    def wants(self, message: ReceivedMessage) -> bool:
        """The broker compares hashes of tags, so a few others may come along."""
        return not self.data.tags_set or message.tags in self.data.tags_set


def subscription_data(topic: str, tags: str | Sequence[str] | None, sql: str | None) -> SubscriptionData:
    """What a program asks for, checked."""
    found = subscription(topic, tags, sql)
    for tag in found.tags_set:
        if "|" in tag:
            raise InvalidArgument(f"the tag {tag!r} holds a |; || stands between tags")
    return found
