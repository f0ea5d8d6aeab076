"""The producer: how programs send.

    async with Producer("order-service", namesrv="127.0.0.1:9876") as producer:
        receipt = await producer.send(Message("orders", b"...", tags="created", keys=["order-42"]))

Everything here prepares a message (checks, unique id, properties, compression) and hands it to `sending.py`. Messages
are checked before the network, options when the producer is made; both raise errors that are `ValueError`s too.

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
from cometmq.client.compression import Compression, codec, compress
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
    property_text,
)
from cometmq.client.options import ClientOptions, MoreOptions, check_numbers
from cometmq.client.pipeline import Pipeline
from cometmq.client.queue_choice import QueueChoice, Selector, Strategy, queue_of_key
from cometmq.client.send_hooks import SendHook
from cometmq.client.sending import BATCH, MESSAGE, Kind, Listener, Sender, Sending
from cometmq.client.transaction import Checker, Decision, Executor, Transaction
from cometmq.errors import ClientClosed, InvalidArgument, InvalidMessage, ProtocolError, RequestRefused
from cometmq.model import names
from cometmq.model.properties import PROPERTIES_SIZE_MAX, render
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
_IN_THREAD_OVER: Final = 64 * 1024  # packing more than this would hold the loop up


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
        self._sender: Sender | None = None

    # --- coming and going

    async def start(self) -> Self:
        """What `async with` does on entering."""
        if self._instance is not None:
            raise ClientClosed("the producer is open already, or was; make a new one")
        self._instance = instance = await ClientInstance.join(self._options)
        self._sender = Sender(
            instance,
            self.group,
            QueueChoice(self._strategy),
            in_flight_max=self._in_flight,
            in_flight_bytes_max=self._in_flight_bytes,
            new_queues=self._new_queues,
        )
        instance.add_producer(self)
        self._sender.hooks += self._hooks
        if self._traces:
            await self._start_trace(self._sender)
        return self

    async def _start_trace(self, sender: Sender) -> None:
        from cometmq.client.trace import PRODUCE, SendTrace, TraceWriter  # it is a producer itself

        self._trace_writer = writer = TraceWriter(self._options, self.group, PRODUCE)
        await writer.start()
        sender.hooks.append(SendTrace(writer, self.group))

    async def close(self) -> None:
        """Wait for what is under way, say good-bye to the brokers, close; bounded in time, harmless twice."""
        sender, instance = self._sender, self._instance
        if sender is None or instance is None or sender.is_closed:
            return
        try:
            await sender.close(self._timeout_ms / 1000)
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

    def _open(self) -> Sender:
        sender = self._sender
        if sender is None:
            raise ClientClosed("the producer is not open: use `async with Producer(…) as producer`")
        if sender.is_closed:
            raise ClientClosed("the producer is closed; make a new one")
        sender.instance.check_open("the producer")
        return sender

    @property
    def instance(self) -> ClientInstance:
        """The shared client below; for what this class does not offer."""
        return self._open().instance

    @property
    def counters(self) -> dict[str, int]:
        """How many messages were sent, tried again, given up, and are under way."""
        sender = self._sender
        if sender is None:
            return {"sent": 0, "retried": 0, "given_up": 0, "in_flight": 0}
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
        sender = self._open()
        check_message(message)
        more = timing_text(delay, at) if delay is not None or at is not None else ""
        if queue is not None or select is not None or message.sharding_key is not None:
            queue = await self.pin(sender, message, queue, select)
        sending = await self.prepare(
            sender, message, more, queue=queue, timeout_ms=timeout_ms, attempts=attempts, unique_key=unique_key
        )
        sending.listener = listener
        return await sender.post(sending)

    async def post_half(
        self, message: Message, *, owner: str, mark: str, unique_key: str | None = None
    ) -> asyncio.Future[Receipt]:
        """`post` of a half message that somebody of the producer group `owner` will end (`many_ends`).

        `mark` tells them which one it is. It is patient: the broker waits until somebody of `owner` is there.
        """
        return await transaction.post_half(self, self._open(), message, owner, mark, unique_key)

    def post_now(self, message: Message, listener: Listener) -> asyncio.Future[Receipt] | None:
        """`post` of a plain message, if it can leave without waiting for anything; else None, and nothing is done."""
        check_message(message)
        packs = self._compress_over is not None and len(message.body) > self._compress_over
        if packs or message.sharding_key is not None:
            return None
        sending = self._sending(self._open(), message, message.body)
        sending.listener = listener
        return sending.future if sending.sender.post_now(sending) else None

    async def prepare(
        self,
        sender: Sender,
        message: Message,
        more: str = "",
        *,
        sys_flag: int = 0,
        kind: Kind = MESSAGE,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        attempts: int | None = None,
        unique_key: str | None = None,
    ) -> Sending:
        """A message as it goes over the wire, packed if it is large."""
        check_message(message)
        body = message.body
        if self._compress_over is not None and self._compress_over < len(body) <= self._size_max:
            body, packed_flag = await self._pack(body)
            sys_flag |= packed_flag
        return self._sending(sender, message, body, more, sys_flag, kind, queue, timeout_ms, attempts, unique_key)

    def _sending(
        self,
        sender: Sender,
        message: Message,
        body: bytes,
        more: str = "",
        sys_flag: int = 0,
        kind: Kind = MESSAGE,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        attempts: int | None = None,
        unique_key: str | None = None,
    ) -> Sending:
        if len(body) > self._size_max:
            raise InvalidMessage(
                f"the body has {len(body)} bytes, over the limit of {self._size_max}; if the broker takes more "
                "(maxMessageSize), raise max_message_size"
            )
        if message.topic in names.NOT_SENDABLE_TOPICS:
            raise InvalidMessage(f"{message.topic} is a topic of the system; nobody may send to it")
        now_ms = sender.clock.now_ms()
        if unique_key is None:
            unique_key = sender.unique_ids.make(now_ms)
        for hook in sender.hooks:
            more += render(hook.sending(message, unique_key))
        text = property_text(message, unique_key, more)
        if len(text) * 4 > PROPERTIES_SIZE_MAX and len(text.encode()) > PROPERTIES_SIZE_MAX:
            raise InvalidMessage(f"the properties take {len(text.encode())} bytes; {PROPERTIES_SIZE_MAX} fit")
        return Sending(
            sender,
            message.topic,
            body,
            text,
            unique_key,
            now_ms,
            sys_flag,
            message.flag,
            kind,
            queue,
            self._attempts if attempts is None else attempts,
            (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000,
        )

    async def _pack(self, body: bytes) -> tuple[bytes, int]:
        """The body packed, with the flag that says so; as it is where packing gains nothing."""
        if len(body) > _IN_THREAD_OVER:
            packed = await asyncio.to_thread(compress, body, self._compression, self._level)
        else:
            packed = compress(body, self._compression, self._level)
        return (packed, self._compression.sys_flag) if len(packed) < len(body) else (body, 0)

    async def pin(
        self, sender: Sender, message: Message, queue: MessageQueue | None, select: Selector | None
    ) -> MessageQueue:
        """The one queue that this message may go to."""
        if queue is None:
            queues = await sender.queues(message.topic)
            queue = select(queues) if select is not None else queue_of_key(message.sharding_key or "", queues)
        if not isinstance(queue, MessageQueue):
            raise InvalidArgument(f"{queue!r} is no queue; choose one of those of {message.topic}")
        if queue.topic != message.topic:
            raise InvalidArgument(f"the queue is one of {queue.topic}, the message is for {message.topic}")
        if queue.broker_name not in sender.instance.routes.brokers:
            await sender.queues(message.topic)
        return queue

    def choose(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        """One of these queues, as a message without key would get it."""
        sender = self._open()
        return sender.choice.choose(queues, sender.loop.time())

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Write a message to a connection and hope; no broker tells whether it has it."""
        sender = self._open()
        check_message(message)
        if queue is not None or message.sharding_key is not None:
            queue = await self.pin(sender, message, queue, None)
        sending = await self.prepare(sender, message, queue=queue)
        sending.future.cancel()
        await sender.post_one_way(sending)

    async def send_batch(
        self, messages: Iterable[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> list[Receipt]:
        """Send many messages of one topic in few requests, split where they are too many for one.

        One receipt per message. If part of them fails the error tells which (`SendsFailed`).
        """
        sender = self._open()
        chunks = batches.split(list(messages), sender, self._size_max)
        if queue is None and (key := batches.sharding_key(chunks)) is not None:
            queue = queue_of_key(key, await sender.queues(chunks[0].topic))
        posted = []
        for chunk in chunks:
            if queue is not None:
                queue = await self.pin(sender, chunk.messages[0], queue, None)
            sending = Sending(
                sender,
                chunk.topic,
                chunk.body,
                chunk.properties,
                ",".join(chunk.unique_keys),
                sender.clock.now_ms(),
                kind=BATCH,
                pinned=queue,
                attempts=self._attempts,
                timeout_s=(timeout_ms or self._timeout_ms) / 1000,
            )
            posted.append((chunk, await sender.post(sending)))
        return await batches.receipts(posted)

    def pipeline(self, in_flight: int = 1000, *, keep_receipts: bool = True) -> Pipeline:
        """Send without waiting for each receipt: at most `in_flight` at once, all done when the block ends."""
        self._open()
        check_numbers(in_flight=in_flight)
        return Pipeline(self.post, self.post_now, in_flight, keep_receipts=keep_receipts)

    def add_hook(self, hook: SendHook) -> None:
        """Let `hook` know of every send from now on, and add properties to it."""
        self._open().hooks.append(hook)

    async def flush(self) -> None:
        """Wait until everything that is under way has ended, one way or the other."""
        await self._open().flush()

    # --- more than sending

    async def request(self, message: Message, *, timeout_ms: int = 3_000) -> ReceivedMessage:
        """Send a message and wait for the reply of a consumer; `RequestTimedOut` if none comes."""
        return await requests.ask(self, self._open(), message, timeout_ms)

    async def reply(self, to: ReceivedMessage, body: bytes) -> None:
        """Answer a message that asked for it."""
        await requests.answer(self, self._open(), to, body)

    def transaction(self, message: Message) -> AbstractAsyncContextManager[Transaction]:
        """`async with producer.transaction(message):` delivers it if the block ends well, and never if it raises."""
        self._check_can_tell()
        return transaction.scope(self, self._open(), message)

    async def send_in_transaction(self, message: Message, execute: Executor) -> tuple[Receipt, Decision]:
        """Prepare a message, run `execute(message)`, and commit or roll back as it decides; raising leaves it open."""
        self._check_can_tell()
        return await transaction.run(self, self._open(), message, execute)

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
        if self._checker is not None and self._sender is not None:
            await transaction.check(self._sender, self._checker, request, message, asker)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Call a delayed message back before its time; returns its id. `recall_handle` is in its receipt."""
        sender = self._open()
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
        return await self._open().queues(check_topic(topic))

    async def create_topic(self, topic: str, *, queues: int = 8, attributes: dict[str, str] | None = None) -> None:
        """Make a topic on all brokers of the cluster, or change it; returns when it can be sent to."""
        await topics.create(self._open().instance, check_topic(topic), queues, attributes or {})
