"""Who watches what a program takes by itself (polls, pops): the message trace, and OpenTelemetry.

A span stands for one call that gave messages, and is linked with the spans in which they were sent; what the program
does with each is its own affair (`spans.processing`). A trace has two lines, as that of a listener: for a pop when the
message is given and when it is acknowledged or its time is over; for a poll both at once, as Java's consumer writes it.

Mirrors: DefaultLitePullConsumerImpl (executeHookBefore, executeHookAfter).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import time_ns
from typing import TYPE_CHECKING

from cometmq.client.listen_watch import check_spans
from cometmq.client.message import ReceivedMessage
from cometmq.client.options import ClientOptions
from cometmq.client.trace_lines import Outcome

if TYPE_CHECKING:
    from cometmq.client.trace import ConsumeTrace, Hearing, TraceWriter


class ReceiveWatch:
    """Of one consumer. Nothing of it waits or raises, but `start` and `close`."""

    def __init__(self, group: str, *, trace: bool, spans: bool) -> None:
        if spans:
            check_spans()
        self._group = group
        self._traces = trace
        self._spans = spans
        self._trace: ConsumeTrace | None = None
        self.writer: TraceWriter | None = None

    async def start(self, options: ClientOptions) -> None:
        if self._traces:
            from cometmq.client.trace import CONSUME, ConsumeTrace, TraceWriter  # a producer, which few consumers need

            self.writer = TraceWriter(options, self._group, CONSUME)
            await self.writer.start()
            self._trace = ConsumeTrace(self.writer, self._group)

    async def close(self) -> None:
        if self.writer is not None:
            await self.writer.close()

    def now_ns(self) -> int:
        """When a call began; 0 if nobody wants to know."""
        return time_ns() if self._spans else 0

    def given(self, messages: Sequence[ReceivedMessage], since_ns: int) -> None:
        """A call that began then gives these."""
        if self._spans and messages:
            from cometmq.client.spans import received  # OpenTelemetry need not be there

            received(messages, group=self._group, since_ns=since_ns)

    def before(self, message: ReceivedMessage) -> Hearing | None:
        """A message is given; what is returned is for `after`."""
        return None if self._trace is None else self._trace.before([message])

    def after(self, hearing: Hearing | None, outcome: Outcome) -> None:
        if self._trace is not None:
            self._trace.after(hearing, outcome)

    def polled(self, messages: Sequence[ReceivedMessage]) -> None:
        """These are given, and whether they were consumed will not be known."""
        if self._trace is None:
            return
        by_topic: dict[str, list[ReceivedMessage]] = {}
        for message in messages:
            by_topic.setdefault(message.topic, []).append(message)
        for some in by_topic.values():
            self._trace.after(self._trace.before(some), Outcome.SUCCESS)
