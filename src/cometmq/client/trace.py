"""The message trace: what became of each message, written to a topic for those who ask later.

Lines (`trace_lines.py`) wait in a queue of at most `WAITING_MAX`; one task sends them, `BATCH_MAX` together, or what
is there after `LINGER_S`. A trace never holds up or fails the program: what finds no room or no broker is counted and
gone.

    writer = TraceWriter(options, group, PRODUCE)       # or CONSUME
    await writer.start()
    hook = SendTrace(writer, group)                     # a producer's; see `SendHook`
    hook = ConsumeTrace(writer, group)                  # a consumer's: hearing = before(…), then after(hearing, …)
    await writer.close()                                # sends what waits, bounded in time

Mirrors: AsyncTraceDispatcher, SendMessageTraceHookImpl, ConsumeMessageTraceHookImpl, EndTransactionTraceHookImpl.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Final, NamedTuple

from cometmq.client import trace_lines
from cometmq.client.message import Message, Receipt, ReceivedMessage, SendStatus
from cometmq.client.options import ClientOptions
from cometmq.client.producer import Producer
from cometmq.client.send_hooks import TransactionEnd
from cometmq.client.sending import Sending
from cometmq.client.trace_lines import DEFAULT_REGION, Consumed, Line, Outcome, TracedType
from cometmq.clock import Clock, SystemClock
from cometmq.errors import CometError
from cometmq.model import names, properties
from cometmq.net.server import outward_ip
from cometmq.wire.message_id import UniqueIds
from cometmq.wire.record import pack_host

log = logging.getLogger("cometmq.client")

WAITING_MAX: Final = 2048
BATCH_MAX: Final = 20
LINGER_S: Final = 1.0
BODY_SIZE_MAX: Final = 128_000
CLOSE_TIMEOUT_S: Final = 3.0
PRODUCE: Final = "PRODUCE"
CONSUME: Final = "CONSUME"

_NOTHING: Final[Mapping[str, str]] = {}
_DELAYS: Final = (properties.DELAY, *properties.TIMER_WISHES, "__STARTDELIVERTIME")
_numbers: Final = itertools.count(1)


class TraceWriter:
    """See the module. Counts what was `written`, `dropped` for want of room, and `failed` to be sent."""

    def __init__(
        self,
        options: ClientOptions,
        group: str,
        role: str,
        *,
        topic: str = names.TRACE_TOPIC,
        clock: Clock | None = None,
    ) -> None:
        tail = f"-{role}-{next(_numbers)}"
        name = f"_INNER_TRACE_PRODUCER-{group}"[: names.GROUP_LENGTH_MAX - len(tail)] + tail
        self._producer = Producer(name, retries=2, send_timeout_ms=5_000, **asdict(options))
        self.topic = topic
        self.clock: Clock = clock or SystemClock()
        self.written = self.dropped = self.failed = 0
        self._waiting: deque[Line] = deque()
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None  # None once it is closing
        self._addresses: Callable[[str], str | None] = lambda _: None
        self._ids = UniqueIds(pack_host(outward_ip("0.0.0.0"), 0)[:-4], os.getpid(), random.getrandbits(32))

    async def start(self) -> None:
        await self._producer.start()
        self._addresses = self._producer.instance.routes.address
        self._task = asyncio.create_task(self._run(), name="cometmq trace")

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send what waits, as far as there is time; harmless twice."""
        task, self._task = self._task, None
        if task is None:
            return
        self._some.set()
        self._full.set()
        try:
            await asyncio.wait([task], timeout=timeout_s)
        finally:
            task.cancel()
            await asyncio.wait([task])
            self.failed += len(self._waiting)
            self._waiting.clear()
            await self._producer.close()

    def add(self, line: Line) -> None:
        """Have a line written some time soon; never waits."""
        waiting = self._waiting
        if len(waiting) >= WAITING_MAX or self._task is None:
            self.dropped += 1
            return
        waiting.append(line)
        self._some.set()
        if len(waiting) >= BATCH_MAX:
            self._full.set()

    def request_id(self) -> str:
        """A new one, by which the two lines of a consumption belong together."""
        return self._ids.make(self.clock.now_ms())

    def address(self, broker_name: str) -> str | None:
        """Where a broker is, as the trace names it."""
        return self._addresses(broker_name)

    async def _run(self) -> None:
        while self._task is not None or self._waiting:
            await self._some.wait()
            if len(self._waiting) < BATCH_MAX and self._task is not None:
                self._full.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_S):
                        await self._full.wait()
            self._some.clear()
            while self._waiting:
                await self._flush()

    async def _flush(self) -> None:
        """One message per topic that is traced, as Java's."""
        taken: dict[str, list[Line]] = {}
        count = min(BATCH_MAX, len(self._waiting))
        for _ in range(count):
            line = self._waiting.popleft()
            taken.setdefault(line.topic, []).append(line)
        for lines in taken.values():
            for some in _cut(lines):
                await self._send(some)

    async def _send(self, lines: Sequence[Line]) -> None:
        keys = list(dict.fromkeys(key for line in lines for key in line.keys))
        try:
            await self._producer.send(Message(self.topic, "".join(line.text for line in lines).encode(), keys=keys))
            self.written += len(lines)
        except asyncio.CancelledError:
            self.failed += len(lines)
            raise
        except CometError as fault:
            self.failed += len(lines)
            log.info("%d lines of the trace were not written: %s", len(lines), fault)


def _cut(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines in messages that are not too large."""
    made: list[list[Line]] = [[]]
    size = 0
    for line in lines:
        made[-1].append(line)
        size += len(line.text)
        if size >= BODY_SIZE_MAX:
            made.append([])
            size = 0
    return [some for some in made if some]


class SendTrace:
    """What a producer calls; see `SendHook`. Traced is what a broker acknowledged, unless it says not to."""

    def __init__(self, writer: TraceWriter, group: str) -> None:
        self._writer = writer
        self._group = group

    def sending(self, message: Message, unique_key: str) -> Mapping[str, str]:
        return _NOTHING

    def sent(self, sending: Sending, with_what: Receipt | CometError | None) -> None:
        answer = sending.answer
        if not isinstance(with_what, Receipt) or answer is None or sending.topic == self._writer.topic:
            return
        if answer.ext.get(properties.TRACE_ON) == "false":
            return
        known = properties.parse(sending.properties)
        line = trace_lines.pub(
            time_ms=sending.born_ms,
            region=answer.ext.get(properties.MSG_REGION) or DEFAULT_REGION,
            group=self._group,
            topic=sending.topic,
            message_id=with_what.message_id,
            tags=known.get(properties.TAGS),
            keys=known.get(properties.KEYS),
            broker=self._writer.address(with_what.broker_name),
            body_size=len(sending.body),
            cost_ms=max(0, self._writer.clock.now_ms() - sending.born_ms),
            kind=_kind(known),
            offset_message_id=with_what.offset_message_id,
            is_ok=with_what.status is SendStatus.OK,
        )
        self._writer.add(line)

    def transaction_ended(self, end: TransactionEnd) -> None:
        known = end.properties
        line = trace_lines.end_transaction(
            time_ms=self._writer.clock.now_ms(),
            region=known.get(properties.MSG_REGION) or DEFAULT_REGION,
            group=self._group,
            topic=end.topic,
            message_id=end.message_id,
            tags=known.get(properties.TAGS),
            keys=known.get(properties.KEYS),
            broker=end.broker,
            transaction_id=end.message_id,
            state=end.state,
            is_check=end.is_check,
        )
        self._writer.add(line)


def _kind(known: Mapping[str, str]) -> TracedType:
    if any(name in known for name in _DELAYS):
        return TracedType.DELAYED
    return TracedType.HALF if known.get(properties.TRANSACTION_PREPARED) == "true" else TracedType.NORMAL


class Hearing(NamedTuple):
    """A call of a listener that is under way."""

    topic: str
    messages: list[Consumed]
    request_id: str
    time_ms: int
    listened: int


class ConsumeTrace:
    """What a consumer calls around each call of a listener. Must be called on the loop."""

    def __init__(self, writer: TraceWriter, group: str) -> None:
        self._writer = writer
        self._group = group

    def before(self, messages: Sequence[ReceivedMessage]) -> Hearing | None:
        """A listener is about to be called; None where nothing is to be traced."""
        traced = [one for one in messages if one.properties.get(properties.TRACE_ON) != "false"]
        region = traced[-1].properties.get(properties.MSG_REGION) if traced else None
        if region is None:
            return None
        consumed = [
            Consumed(one.message_id, one.properties.get(properties.KEYS), one.reconsume_times) for one in traced
        ]
        now_ms = self._writer.clock.now_ms()
        hearing = Hearing(traced[0].topic, consumed, self._writer.request_id(), now_ms, len(messages))
        self._writer.add(
            trace_lines.sub_before(
                hearing.topic,
                consumed,
                time_ms=now_ms,
                region=region,
                group=self._group,
                request_id=hearing.request_id,
            )
        )
        return hearing

    def after(self, hearing: Hearing | None, outcome: Outcome) -> None:
        """It ended, so or so."""
        if hearing is None:
            return
        now_ms = self._writer.clock.now_ms()
        self._writer.add(
            trace_lines.sub_after(
                hearing.topic,
                hearing.messages,
                time_ms=now_ms,
                group=self._group,
                request_id=hearing.request_id,
                cost_ms=max(0, now_ms - hearing.time_ms) // hearing.listened,
                is_ok=outcome is Outcome.SUCCESS,
                outcome=outcome,
            )
        )
