"""From a program's message to a `Sending`: checked, given its unique id and properties, packed, bound to its queue.

Nothing here waits for the network but `pin`, where the queues of a topic are not known yet. A message that no broker
would take is refused here, with an error that is a `ValueError` too.

Invariants: the program's message is never changed; a body is packed only if that makes it smaller, and a large one in
a thread, so that it does not hold the loop up.

Mirrors: DefaultMQProducerImpl (tryToCompressMessage), Validators.
"""

from __future__ import annotations

import asyncio
from typing import Final

from cometmq.client.compression import Compression, compress
from cometmq.client.message import Message, check_message, property_text
from cometmq.client.queue_choice import Selector, queue_of_key
from cometmq.client.sender import Sender
from cometmq.client.sending import MESSAGE, Kind, Sending
from cometmq.errors import InvalidArgument, InvalidMessage
from cometmq.model import names
from cometmq.model.properties import PROPERTIES_SIZE_MAX, render
from cometmq.model.queue import MessageQueue

_IN_THREAD_OVER: Final = 64 * 1024  # packing more than this would hold the loop up


class Preparer:
    """Prepares the messages of one producer for its `sender`; `compress_over=None` never packs."""

    def __init__(
        self,
        sender: Sender,
        *,
        attempts: int,
        timeout_ms: int,
        size_max: int,
        compress_over: int | None,
        compression: Compression,
        level: int,
    ) -> None:
        self.sender = sender
        self.attempts = attempts
        self.timeout_ms = timeout_ms
        self.size_max = size_max
        self.compress_over = compress_over
        self._compression = compression
        self._level = level

    async def prepare(
        self,
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
        if self.compress_over is not None and self.compress_over < len(body) <= self.size_max:
            body, packed_flag = await self._pack(body)
            sys_flag |= packed_flag
        return self.sending(message, body, more, sys_flag, kind, queue, timeout_ms, attempts, unique_key)

    def sending(
        self,
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
        """The same of a message that was checked, with the body that it shall have on the wire."""
        if len(body) > self.size_max:
            raise InvalidMessage(
                f"the body has {len(body)} bytes, over the limit of {self.size_max}; if the broker takes more "
                "(maxMessageSize), raise max_message_size"
            )
        if message.topic in names.NOT_SENDABLE_TOPICS:
            raise InvalidMessage(f"{message.topic} is a topic of the system; nobody may send to it")
        sender = self.sender
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
            self.attempts if attempts is None else attempts,
            (self.timeout_ms if timeout_ms is None else timeout_ms) / 1000,
            message,
        )

    async def _pack(self, body: bytes) -> tuple[bytes, int]:
        """The body packed, with the flag that says so; as it is where packing gains nothing."""
        if len(body) > _IN_THREAD_OVER:
            packed = await asyncio.to_thread(compress, body, self._compression, self._level)
        else:
            packed = compress(body, self._compression, self._level)
        return (packed, self._compression.sys_flag) if len(packed) < len(body) else (body, 0)

    async def pin(
        self, message: Message, queue: MessageQueue | None = None, select: Selector | None = None
    ) -> MessageQueue:
        """The one queue that this message may go to: the one given or selected, else that of its sharding key."""
        sender = self.sender
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
