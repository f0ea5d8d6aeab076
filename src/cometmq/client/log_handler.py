"""A `logging.Handler` that writes to a topic, and never holds up or fails the program that logs.

    logging.getLogger().addHandler(TopicHandler("logs", namesrv="127.0.0.1:9876"))

    any thread ── emit ──> queue of `waiting` records ──> one daemon thread with a loop and a producer ──> topic

`emit` formats the record and puts it in the queue, no more. A record that finds no room is counted in `dropped`, one
that no broker takes in `failed`. Records of the handler's own thread and of the SDK itself are left out: they would
beget others. `flush` and `close` wait, but no longer than `close_timeout_s`. In a forked child a new thread is begun.

The message's tag is the level, its key the logger's name. Mirrors: RocketmqLogbackAppender.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Unpack

from cometmq.client.compression import Compression
from cometmq.client.message import Message, check_group, check_topic
from cometmq.client.options import ClientOptions, MoreOptions, check_numbers
from cometmq.client.pipeline import Pipeline
from cometmq.client.producer import Producer
from cometmq.client.queue_choice import Strategy
from cometmq.client.transaction import Checker
from cometmq.errors import SendsFailed

WAITING_MAX: Final = 10_000
IN_FLIGHT: Final = 200
BODY_SIZE_MAX: Final = 1024 * 1024
_POLL_S: Final = 0.01
_PAUSE_S: Final = 1.0
_CLOSE_TIMEOUT_S: Final = 3.0


class ProducerOptions(MoreOptions, total=False):
    """The options of a `Producer`, for type checkers; a test holds them together."""

    strategy: Strategy | str
    retries: int
    send_timeout_ms: int
    in_flight: int
    in_flight_bytes: int
    max_message_size: int
    compress_over: int | None
    compression: Compression
    compression_level: int
    new_topic_queues: int
    checker: Checker | None
    trace: bool
    spans: bool
    client_id: str | None


class TopicHandler(logging.Handler):
    """See the module. Its thread starts with the first record."""

    def __init__(
        self,
        topic: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        group: str = "cometmq-logs",
        level: int | str = logging.NOTSET,
        waiting: int = WAITING_MAX,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Further `options` are those of `Producer`."""
        super().__init__(level)
        self._topic = check_topic(topic)
        self._group = check_group(group)
        check_numbers(waiting=waiting)
        self._namesrv = ClientOptions.of(namesrv).namesrv
        self._options = options
        self._new_producer()  # a wrong option is told here, not in a thread
        self._waiting_max = waiting
        self._close_timeout_s = options.get("close_timeout_s", _CLOSE_TIMEOUT_S)
        self.sent = self.dropped = self.failed = 0
        self._waiting: deque[Message] = deque()
        self._taken = 0  # how many ever waited
        self._is_closing = False
        self._is_asleep = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._process = os.getpid()

    def _new_producer(self) -> Producer:
        return Producer(self._group, namesrv=self._namesrv, **self._options)

    # --- what logging calls, in any thread

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == "cometmq" or record.thread == self._thread_id:
            return
        if self._is_closing or len(self._waiting) >= self._waiting_max:
            self.dropped += 1
            return
        try:
            self._waiting.append(self._message(record))
            self._taken += 1
            if self._thread is None or self._process != os.getpid():
                self._begin()
            self._rouse()
        except Exception:
            self.dropped += 1
            self.handleError(record)

    @property
    def _thread_id(self) -> int | None:
        return self._thread.ident if self._thread is not None else None

    def _message(self, record: logging.LogRecord) -> Message:
        body = self.format(record).encode("utf-8", "replace")[:BODY_SIZE_MAX] or b" "
        key = "".join(record.name.split()) or "root"
        return Message(self._topic, body, tags=record.levelname.replace("|", "_") or None, keys=[key])

    def _begin(self) -> None:
        if self._process != os.getpid():  # what waited is the parent's to send
            self._process = os.getpid()
            while len(self._waiting) > 1:
                self._waiting.popleft()
            self._taken = self.sent + self.failed + 1
        self._is_asleep = False
        self._wake = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="cometmq logs", daemon=True)
        self._thread.start()

    def _rouse(self) -> None:
        loop = self._loop
        if self._is_asleep and loop is not None:
            self._is_asleep = False
            with suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(self._wake.set)

    @property
    def _is_ours(self) -> bool:
        """Whether there is a thread to wait for: not in a forked child, and not in itself."""
        thread = self._thread
        return thread is not None and self._process == os.getpid() and thread is not threading.current_thread()

    def flush(self) -> None:
        """Wait until everything is sent or given up, as long as `close_timeout_s`."""
        until = time.monotonic() + self._close_timeout_s
        while self._is_ours and self._taken > self.sent + self.failed and time.monotonic() < until:
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Send what waits, in the time there is, and end the thread."""
        until = time.monotonic() + self._close_timeout_s
        self.flush()
        self._is_closing = True
        self._rouse()
        if self._thread is not None and self._is_ours:
            self._thread.join(max(_POLL_S, until - time.monotonic()))
        super().close()

    # --- the thread

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not self._is_closing:
            try:
                async with self._new_producer() as producer:
                    await self._send_all(producer)
            except Exception:  # there is nobody whom it could be told: a log line would come back here
                await asyncio.sleep(_PAUSE_S)

    async def _send_all(self, producer: Producer) -> None:
        pipeline = producer.pipeline(IN_FLIGHT, keep_receipts=False)
        while not self._is_closing:
            while self._waiting and not self._is_closing:
                await self._send(pipeline, self._waiting.popleft())
            await self._settle(pipeline)
            self._wake.clear()
            self._is_asleep = True
            if not self._waiting and not self._is_closing:
                await self._wake.wait()
            self._is_asleep = False

    async def _send(self, pipeline: Pipeline, message: Message) -> None:
        try:
            await pipeline.send(message)
        except Exception:
            self.failed += 1

    async def _settle(self, pipeline: Pipeline) -> None:
        try:
            await pipeline.flush()
        except SendsFailed as fault:
            self.failed += len(fault.failures)
        self.sent, pipeline.sent = self.sent + pipeline.sent, 0
