"""Calls of listeners that someone watches: the message trace, and OpenTelemetry.

Mirrors: ConsumeMessageHook.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from cometmq.client.listeners import Listener
from cometmq.client.message import ReceivedMessage
from cometmq.client.options import ClientOptions
from cometmq.client.trace_lines import Outcome
from cometmq.errors import RetryLater

if TYPE_CHECKING:
    from cometmq.client.trace import ConsumeTrace, TraceWriter


class ListenWatch:
    """Around each call of a listener of one group: a line of trace before and after, a span for a single message."""

    def __init__(self, group: str, *, spans: bool) -> None:
        self._group = group
        self._spans = spans
        self._trace: ConsumeTrace | None = None
        self.writer: TraceWriter | None = None

    async def start_trace(self, options: ClientOptions) -> None:
        from cometmq.client.trace import CONSUME, ConsumeTrace, TraceWriter  # a producer, which most consumers need not

        self.writer = TraceWriter(options, self._group, CONSUME)
        await self.writer.start()
        self._trace = ConsumeTrace(self.writer, self._group)

    async def close(self) -> None:
        if self.writer is not None:
            await self.writer.close()

    async def hear(
        self, listener: Listener, messages: list[ReceivedMessage], pool: Executor, left: list[asyncio.Future[Any]]
    ) -> None:
        """Call the listener; what it raises is raised."""
        hearing = None if self._trace is None else self._trace.before(messages)
        outcome = Outcome.EXCEPTION
        try:
            with ExitStack() as around:
                if (
                    self._spans and len(messages) == 1
                ):  # a batch has many parents; which is its own is the program's affair
                    from cometmq.client.spans import processing  # OpenTelemetry need not be there

                    around.enter_context(processing(messages[0], group=self._group))
                await listener.hear(messages, pool, left)
            outcome = Outcome.SUCCESS
        except RetryLater:
            outcome = Outcome.FAILED
            raise
        except asyncio.CancelledError:
            outcome = Outcome.TIME_OUT
            raise
        finally:
            if self._trace is not None:
                self._trace.after(hearing, outcome)


def check_spans() -> None:
    """Say at once if OpenTelemetry is not installed."""
    from cometmq.client.spans import SendSpans

    SendSpans()
