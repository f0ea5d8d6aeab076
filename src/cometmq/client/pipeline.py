"""Fire and collect: a window of sends under way, each answered on its own, all of them when the block ends.

    async with producer.pipeline(in_flight=1000) as pipeline:
        for order in orders:
            await pipeline.send(Message("orders", order))       # waits only while 1000 are under way
    pipeline.receipts                                           # in the order of the sends

Leaving the block waits for the rest, and raises `SendsFailed` if any was not acknowledged. With
`keep_receipts=False` only their number is kept, for streams without end. Of the messages with one sharding key one is
under way at a time: brokers may store what comes over one connection in another order (Java's send with many threads).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from cometmq.client.message import Message, Receipt
from cometmq.errors import SendsFailed

Post = Callable[..., Awaitable["asyncio.Future[Receipt]"]]


class Pipeline:
    """See the module."""

    def __init__(self, post: Post, in_flight: int, *, keep_receipts: bool) -> None:
        self._post = post
        self._in_flight_max = in_flight
        self._keep = keep_receipts
        self._open = 0
        self._progress: asyncio.Future[None] | None = None
        self._last_of: dict[str, asyncio.Future[Receipt]] = {}
        self._futures: list[asyncio.Future[Receipt]] = []
        self.sent = 0
        self.failures: list[tuple[object, Exception]] = []

    @property
    def receipts(self) -> list[Receipt]:
        """Of what has been acknowledged so far."""
        return [future.result() for future in self._futures if future.done() and _is_good(future)]

    async def send(self, message: Message, **how: Any) -> asyncio.Future[Receipt]:
        """Put a message on its way; waits while the window is full. Takes what `Producer.send` takes."""
        while self._open >= self._in_flight_max:
            await self._one_less()
        key = message.sharding_key
        if key is not None:
            while (before := self._last_of.get(key)) is not None and not before.done():
                await asyncio.wait([before])
        self._open += 1
        try:
            future = await self._post(message, **how)
        except BaseException:
            self._open -= 1
            raise
        future.add_done_callback(lambda ended: self._ended(message, ended))
        if key is not None:
            self._last_of[key] = future
        if self._keep:
            self._futures.append(future)
        return future

    def _ended(self, message: Message, future: asyncio.Future[Receipt]) -> None:
        self._open -= 1
        if message.sharding_key is not None and self._last_of.get(message.sharding_key) is future:
            del self._last_of[message.sharding_key]
        if future.cancelled():
            self.failures.append((message, SendsCancelled()))
        elif (fault := future.exception()) is not None:
            self.failures.append((message, fault if isinstance(fault, Exception) else SendsCancelled()))
        else:
            self.sent += 1
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    async def _one_less(self) -> None:
        if self._progress is None or self._progress.done():
            self._progress = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._progress)

    async def flush(self) -> None:
        """Wait until nothing is under way; raises `SendsFailed` if something failed since the last time."""
        while self._open:
            await self._one_less()
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


class SendsCancelled(Exception):
    """The send was cancelled by the program."""


def _is_good(future: asyncio.Future[Receipt]) -> bool:
    return not future.cancelled() and future.exception() is None
