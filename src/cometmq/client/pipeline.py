"""Fire and collect: a window of sends under way, each answered on its own, all of them when the block ends.

    async with producer.pipeline(in_flight=1000) as pipeline:
        for order in orders:
            await pipeline.send(Message("orders", order))       # waits only while 1000 are under way
    pipeline.receipts                                           # in the order of the sends

Leaving the block waits for the rest, and raises `SendsFailed`, with the messages, if any was not acknowledged. With
`keep_receipts=False` only their number is kept, for streams without end. Of the messages with one sharding key one is
under way at a time: brokers may store what comes over one connection in another order (Java's send with many threads).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypedDict, Unpack

from cometmq.client.message import Message, Receipt
from cometmq.client.queue_choice import Selector
from cometmq.client.sending import Listener, Sending
from cometmq.errors import CometError, SendsFailed
from cometmq.model.queue import MessageQueue

Post = Callable[..., Awaitable["asyncio.Future[Receipt]"]]
PostNow = Callable[[Message, Listener], "asyncio.Future[Receipt] | None"]


class SendOptions(TypedDict, total=False):
    """The options of `Producer.send`, for type checkers; a test holds them together."""

    delay: timedelta | int | None
    at: datetime | None
    queue: MessageQueue | None
    select: Selector | None
    timeout_ms: int | None


class Pipeline:
    """See the module."""

    def __init__(self, post: Post, post_now: PostNow, in_flight: int, *, keep_receipts: bool) -> None:
        self._post = post
        self._post_now = post_now
        self._in_flight_max = in_flight
        self._keep = keep_receipts
        self._open = 0
        self._progress: asyncio.Future[None] | None = None
        self._last_of: dict[str, asyncio.Future[Receipt]] = {}
        self._futures: list[asyncio.Future[Receipt]] = []
        self.sent = 0
        self.failures: list[tuple[Message, Exception]] = []

    @property
    def receipts(self) -> list[Receipt]:
        """Of what has been acknowledged so far."""
        return [future.result() for future in self._futures if _is_good(future)]

    async def send(self, message: Message, **how: Unpack[SendOptions]) -> asyncio.Future[Receipt]:
        """Put a message on its way; waits while the window is full. Takes what `Producer.send` takes."""
        while self._open >= self._in_flight_max:
            await self._one_less()
        self._open += 1
        try:
            future = None if how else self._post_now(message, self._ended)
            if future is None:
                future = await self._send_slowly(message, how)
        except BaseException:
            self._open -= 1
            raise
        if self._keep:
            self._futures.append(future)
        return future

    async def _send_slowly(self, message: Message, how: SendOptions) -> asyncio.Future[Receipt]:
        key = message.sharding_key
        if key is None:
            return await self._post(message, listener=self._ended, **how)
        while (before := self._last_of.get(key)) is not None:
            await asyncio.wait([before])
            if self._last_of.get(key) is before:
                del self._last_of[key]
        future = self._last_of[key] = await self._post(message, listener=self._ended, **how)
        return future

    def _ended(self, sending: Sending, with_what: Receipt | CometError) -> None:
        self._open -= 1
        if isinstance(with_what, Receipt):
            self.sent += 1
        else:
            assert sending.message is not None
            self.failures.append((sending.message, with_what))
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None

    async def _one_less(self) -> None:
        if self._progress is None:
            self._progress = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._progress)

    async def flush(self) -> None:
        """Wait until nothing is under way; raises `SendsFailed` if something failed since the last time."""
        while self._open:
            await self._one_less()
        self._last_of.clear()
        if self.failures:
            failures, self.failures = self.failures, []
            raise SendsFailed(failures, self.sent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.flush()


def _is_good(future: asyncio.Future[Receipt]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
