"""The producer: how programs send.

    async with Producer("order-service", namesrv="127.0.0.1:9876") as producer:
        receipt = await producer.send(Message("orders", b"...", tags="created", keys=["order-42"]))

The public face alone: `preparing.py` makes of a message what goes over the wire, `sender.py` sends it. Messages are
checked before the network, options when the producer is made; both raise errors that are `ValueError`s too.

Mirrors: DefaultMQProducer, TransactionMQProducer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

from cometmq.client import batches, requests, topics, transaction
from cometmq.client.compression import Compression, codec
from cometmq.client.delays import timing_text
from cometmq.client.instance import ClientInstance
from cometmq.client.message import (
    BODY_SIZE_MAX,
    Message,
    Receipt,
    ReceivedMessage,
    check_group,
    check_message,
    check_topic,
)
from cometmq.client.options import ClientOptions, MoreOptions, check_numbers
from cometmq.client.pipeline import Pipeline
from cometmq.client.preparing import Preparer
from cometmq.client.queue_choice import QueueChoice, Selector, Strategy
from cometmq.client.send_hooks import SendHook
from cometmq.client.sender import Sender
from cometmq.client.sending import Listener
from cometmq.client.transaction import Checker, Decision, Executor, Transaction
from cometmq.errors import ClientClosed, InvalidArgument, ProtocolError, RequestRefused
from cometmq.model.queue import MessageQueue
from cometmq.net.channel import Channel
from cometmq.wire.recall_handle import RecallHandle
from cometmq.wire.requests.timer import RecallMessage, RecallMessageReply
from cometmq.wire.requests.transaction import CheckTransactionState

if TYPE_CHECKING:
    from cometmq.client.trace import TraceWriter

IN_FLIGHT_MAX: Final = 4096
IN_FLIGHT_BYTES_MAX: Final = 64 * 1024 * 1024
COMPRESS_OVER: Final = 4096


class Producer:
    """Sends messages. `retries` go to another broker; `checker` is asked how transactions ended."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        strategy: Strategy | str = Strategy.ROUND_ROBIN,
        retries: int = 2,
        send_timeout_ms: int = 3_000,
        in_flight: int = IN_FLIGHT_MAX,
        in_flight_bytes: int = IN_FLIGHT_BYTES_MAX,
        max_message_size: int = BODY_SIZE_MAX,
        compress_over: int | None = COMPRESS_OVER,
        compression: Compression = Compression.ZLIB,
        compression_level: int = 5,
        new_topic_queues: int = 4,
        checker: Checker | None = None,
        trace: bool = False,
        spans: bool = False,
        client_id: str | None = None,
        **options: Unpack[MoreOptions],
    ) -> None:
        """`compress_over=None` never packs; `trace` tells the trace topic of sends, `spans` OpenTelemetry.

        Further `options` are those of `ClientOptions`.
        """
        self.group = check_group(group)
        self._options = ClientOptions.of(namesrv, client_id=client_id, **options)
        check_numbers(in_flight=in_flight, in_flight_bytes=in_flight_bytes)
        if retries < 0 or send_timeout_ms <= 0 or new_topic_queues < 1:
            raise InvalidArgument(
                "retries may not be negative; send_timeout_ms and new_topic_queues must be more than 0"
            )
        try:
            self._strategy = Strategy(strategy)
        except ValueError:
            raise InvalidArgument(f"strategy is {strategy!r}; {' or '.join(Strategy)} is possible") from None
        codec(compression)  # say now if it is not installed
        self._attempts = retries + 1
        self._timeout_ms = send_timeout_ms
        self._in_flight = in_flight
        self._in_flight_bytes = in_flight_bytes
        self._size_max = max_message_size
        self._compress_over = compress_over
        self._compression = compression
        self._level = compression_level
        self._new_queues = new_topic_queues
        self._checker = checker
        self._traces = trace
        self._hooks: list[SendHook] = []
        if spans:
            from cometmq.client.spans import SendSpans  # OpenTelemetry need not be there

            self._hooks.append(SendSpans())
        self._trace_writer: TraceWriter | None = None
        self._instance: ClientInstance | None = None
        self._preparer: Preparer | None = None

    # --- coming and going

    async def start(self) -> Self:
        """What `async with` does on entering."""
        if self._instance is not None:
            raise ClientClosed("the producer is open already, or was; make a new one")
        self._instance = instance = await ClientInstance.join(self._options)
        sender = Sender(
            instance,
            self.group,
            QueueChoice(self._strategy),
            in_flight_max=self._in_flight,
            in_flight_bytes_max=self._in_flight_bytes,
            new_queues=self._new_queues,
        )
        self._preparer = Preparer(
            sender,
            attempts=self._attempts,
            timeout_ms=self._timeout_ms,
            size_max=self._size_max,
            compress_over=self._compress_over,
            compression=self._compression,
            level=self._level,
        )
        instance.add_producer(self)
        sender.hooks += self._hooks
        if self._traces:
            await self._start_trace(sender)
        return self

    async def _start_trace(self, sender: Sender) -> None:
        from cometmq.client.trace import PRODUCE, SendTrace, TraceWriter  # it is a producer itself

        self._trace_writer = writer = TraceWriter(self._options, self.group, PRODUCE)
        await writer.start()
        sender.hooks.append(SendTrace(writer, self.group))

    async def close(self) -> None:
        """Wait for what is under way, say good-bye to the brokers, close; bounded in time, harmless twice."""
        preparer, instance = self._preparer, self._instance
        if preparer is None or instance is None or preparer.sender.is_closed:
            return
        try:
            await preparer.sender.close(self._timeout_ms / 1000)
            if self._trace_writer is not None:
                await self._trace_writer.close()
            await instance.remove_producer(self)
        finally:
            await instance.leave()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _open(self) -> Preparer:
        preparer = self._preparer
        if preparer is None:
            raise ClientClosed("the producer is not open: use `async with Producer(…) as producer`")
        sender = preparer.sender
        if sender.is_closed:
            raise ClientClosed("the producer is closed; make a new one")
        sender.instance.check_open("the producer")
        return preparer

    @property
    def instance(self) -> ClientInstance:
        """The shared client below; for what this class does not offer."""
        return self._open().sender.instance

    @property
    def counters(self) -> dict[str, int]:
        """How many messages were sent, tried again, given up, and are under way."""
        if self._preparer is None:
            return {"sent": 0, "retried": 0, "given_up": 0, "in_flight": 0}
        sender = self._preparer.sender
        counts = {"sent": sender.sent, "retried": sender.retried, "given_up": sender.given_up}
        counts["in_flight"] = sender.in_flight
        if (writer := self._trace_writer) is not None:
            counts |= {"traced": writer.written, "trace_lost": writer.dropped + writer.failed}
        return counts

    # --- sending

    async def send(
        self,
        message: Message,
        *,
        delay: timedelta | int | None = None,
        at: datetime | None = None,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> Receipt:
        """Send, and wait until a broker has it.

        `delay` is a duration or one of the broker's levels, `at` a time. A message with a `sharding_key` goes to that
        key's queue; `queue` or `select` name another. Raises `SendFailed`.
        """
        posted = self.post(message, delay=delay, at=at, queue=queue, select=select, timeout_ms=timeout_ms)
        return await (await posted)

    async def post(
        self,
        message: Message,
        *,
        delay: timedelta | int | None = None,
        at: datetime | None = None,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        timeout_ms: int | None = None,
        listener: Listener | None = None,
        unique_key: str | None = None,
        attempts: int | None = None,
    ) -> asyncio.Future[Receipt]:
        """Put a message on its way and return without waiting for its receipt, which the future will have.

        `unique_key` is an id of the program's own, `attempts` how often this one may be tried.
        """
        preparer = self._open()
        check_message(message)
        more = timing_text(delay, at) if delay is not None or at is not None else ""
        if queue is not None or select is not None or message.sharding_key is not None:
            queue = await preparer.pin(message, queue, select)
        sending = await preparer.prepare(
            message, more, queue=queue, timeout_ms=timeout_ms, attempts=attempts, unique_key=unique_key
        )
        sending.listener = listener
        return await preparer.sender.post(sending)

    async def post_half(
        self, message: Message, *, owner: str, mark: str, unique_key: str | None = None
    ) -> asyncio.Future[Receipt]:
        """`post` of a half message that somebody of the producer group `owner` will end (`many_ends`).

        `mark` tells them which one it is. It is patient: the broker waits until somebody of `owner` is there.
        """
        return await transaction.post_half(self._open(), message, owner, mark, unique_key)

    def post_now(self, message: Message, listener: Listener) -> asyncio.Future[Receipt] | None:
        """`post` of a plain message, if it can leave without waiting for anything; else None, and nothing is done."""
        check_message(message)
        packs = self._compress_over is not None and len(message.body) > self._compress_over
        if packs or message.sharding_key is not None:
            return None
        sending = self._open().sending(message, message.body)
        sending.listener = listener
        return sending.future if sending.sender.post_now(sending) else None

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Write a message to a connection and hope; no broker tells whether it has it."""
        preparer = self._open()
        check_message(message)
        if queue is not None or message.sharding_key is not None:
            queue = await preparer.pin(message, queue)
        sending = await preparer.prepare(message, queue=queue)
        sending.future.cancel()
        await preparer.sender.post_one_way(sending)

    async def send_batch(
        self, messages: Iterable[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> list[Receipt]:
        """Send many messages of one topic in few requests, split where they are too many for one.

        One receipt per message. If part of them fails the error tells which (`SendsFailed`).
        """
        return await batches.send(self._open(), list(messages), queue, timeout_ms)

    def pipeline(self, in_flight: int = 1000, *, keep_receipts: bool = True) -> Pipeline:
        """Send without waiting for each receipt: at most `in_flight` at once, all done when the block ends."""
        self._open()
        check_numbers(in_flight=in_flight)
        return Pipeline(self.post, self.post_now, in_flight, keep_receipts=keep_receipts)

    def add_hook(self, hook: SendHook) -> None:
        """Let `hook` know of every send from now on, and add properties to it."""
        self._open().sender.hooks.append(hook)

    async def flush(self) -> None:
        """Wait until everything that is under way has ended, one way or the other."""
        await self._open().sender.flush()

    # --- more than sending

    async def request(self, message: Message, *, timeout_ms: int = 3_000) -> ReceivedMessage:
        """Send a message and wait for the reply of a consumer; `RequestTimedOut` if none comes."""
        return await requests.ask(self._open(), message, timeout_ms)

    async def reply(self, to: ReceivedMessage, body: bytes) -> None:
        """Answer a message that asked for it."""
        await requests.answer(self._open(), to, body)

    def transaction(self, message: Message) -> AbstractAsyncContextManager[Transaction]:
        """`async with producer.transaction(message):` delivers it if the block ends well, and never if it raises."""
        self._check_can_tell()
        return transaction.scope(self._open(), message)

    async def send_in_transaction(self, message: Message, execute: Executor) -> tuple[Receipt, Decision]:
        """Prepare a message, run `execute(message)`, and commit or roll back as it decides; raising leaves it open."""
        self._check_can_tell()
        return await transaction.run(self._open(), message, execute)

    def _check_can_tell(self) -> None:
        if self._checker is None:
            raise InvalidArgument(
                "a transaction needs a producer with a checker: if this program dies between its work and the commit, "
                "the broker asks `checker(message)` how it ended"
            )

    @property
    def checks_transactions(self) -> bool:
        return self._checker is not None

    async def check_transaction(self, request: CheckTransactionState, message: ReceivedMessage, asker: Channel) -> None:
        """What the instance calls when a broker asks how a transaction ended."""
        if self._checker is not None and self._preparer is not None:
            await transaction.check(self._preparer.sender, self._checker, request, message, asker)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Call a delayed message back before its time; returns its id. `recall_handle` is in its receipt."""
        sender = self._open().sender
        check_topic(topic)
        try:
            handle = RecallHandle.decode(recall_handle)
        except (ProtocolError, RequestRefused, AttributeError):
            raise InvalidArgument("this is not a recall handle; take the one of the receipt") from None
        await sender.queues(topic)
        answer = await sender.instance.call(handle.broker_name, RecallMessage(self.group, topic, recall_handle))
        return RecallMessageReply.read(answer.ext).msg_id

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues that a message to this topic may go to."""
        return await self._open().sender.queues(check_topic(topic))

    async def create_topic(self, topic: str, *, queues: int = 8, attributes: dict[str, str] | None = None) -> None:
        """Make a topic on all brokers of the cluster, or change it; returns when it can be sent to."""
        await topics.create(self._open().sender.instance, check_topic(topic), queues, attributes or {})
