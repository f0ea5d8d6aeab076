"""Batches: many messages of one topic in one request, cut where one would be too large.

Mirrors: MessageBatch, MQAdminImpl.processBatch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cometmq.client.message import Message, Receipt, check_message, property_text
from cometmq.client.preparing import Preparer
from cometmq.client.queue_choice import queue_of_key
from cometmq.client.sender import Sender
from cometmq.client.sending import BATCH, Sending
from cometmq.errors import InvalidMessage, SendsFailed
from cometmq.model import names, properties
from cometmq.model.queue import MessageQueue
from cometmq.wire.batch import SUB_RECORD_SIZE_MIN, encode_batch

BATCH_SIZE_MAX: Final = 1024 * 1024  # larger ones gain nothing, and hold up what comes behind them
MESSAGES_MAX: Final = 1000  # the answer names the id of each, in a header


@dataclass(slots=True)
class Chunk:
    """What goes in one request."""

    topic: str
    messages: list[Message] = field(default_factory=list)
    unique_keys: list[str] = field(default_factory=list)
    parts: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    size: int = 0

    @property
    def body(self) -> bytes:
        return encode_batch(self.parts)

    @property
    def properties(self) -> str:
        """Of the batch as a whole."""
        waits = "true" if all(message.wait_stored for message in self.messages) else "false"
        return f"{properties.UNIQ_KEY}\x01{','.join(self.unique_keys[:1])}\x02{properties.WAIT}\x01{waits}\x02"


def split(messages: Sequence[Message], sender: Sender, size_max: int) -> list[Chunk]:
    """Messages in chunks that a broker takes; refuses what cannot be one batch."""
    if not messages:
        raise InvalidMessage("the batch is empty; give at least one message")
    for message in messages:
        check_message(message)
    topic = messages[0].topic
    if topic.startswith(names.RETRY_PREFIX) or topic in names.NOT_SENDABLE_TOPICS:
        raise InvalidMessage(f"{topic} takes no batches")
    limit = min(size_max, BATCH_SIZE_MAX)
    chunks = [Chunk(topic)]
    for message in messages:
        if message.topic != topic:
            raise InvalidMessage(f"a batch has one topic; this one has {topic} and {message.topic}")
        if message.sharding_key != messages[0].sharding_key:
            raise InvalidMessage("the messages of a batch go to one queue, so their sharding keys must be the same")
        if len(message.body) > size_max:
            raise InvalidMessage(f"a body of {len(message.body)} bytes is over the limit of {size_max}")
        unique_key = sender.unique_ids.make(sender.clock.now_ms())
        more = "".join([properties.render(hook.sending(message, unique_key)) for hook in sender.hooks])
        data = property_text(message, unique_key, more).encode()
        if len(data) > properties.PROPERTIES_SIZE_MAX:
            raise InvalidMessage(f"the properties take {len(data)} bytes; {properties.PROPERTIES_SIZE_MAX} fit")
        size = SUB_RECORD_SIZE_MIN + len(message.body) + len(data)
        chunk = chunks[-1]
        if chunk.messages and (chunk.size + size > limit or len(chunk.messages) >= MESSAGES_MAX):
            chunk = Chunk(topic)
            chunks.append(chunk)
        chunk.messages.append(message)
        chunk.unique_keys.append(unique_key)
        chunk.parts.append((message.flag, message.body, data))
        chunk.size += size
    return chunks


async def send(
    preparer: Preparer, messages: Sequence[Message], queue: MessageQueue | None, timeout_ms: int | None
) -> list[Receipt]:
    """Send messages in as few requests as they fit into, all to the same queue if one is given or their key asks."""
    sender = preparer.sender
    chunks = split(messages, sender, preparer.size_max)
    key = messages[0].sharding_key
    if queue is None and key is not None:
        queue = queue_of_key(key, await sender.queues(chunks[0].topic))
    posted = []
    for chunk in chunks:
        if queue is not None:
            queue = await preparer.pin(chunk.messages[0], queue)
        sending = Sending(
            sender,
            chunk.topic,
            chunk.body,
            chunk.properties,
            ",".join(chunk.unique_keys),
            sender.clock.now_ms(),
            kind=BATCH,
            pinned=queue,
            attempts=preparer.attempts,
            timeout_s=(timeout_ms or preparer.timeout_ms) / 1000,
        )
        posted.append((chunk, await sender.post(sending)))
    return await _receipts(posted)


async def _receipts(posted: Sequence[tuple[Chunk, asyncio.Future[Any]]]) -> list[Receipt]:
    """A receipt for each message, in their order; or `SendsFailed` with those that have none."""
    answers = await asyncio.gather(*[future for _, future in posted], return_exceptions=True)
    made: list[Receipt] = []
    failures: list[tuple[Message, Exception]] = []
    for (chunk, _), answer in zip(posted, answers, strict=True):
        if isinstance(answer, Receipt):
            made += _each(chunk, answer)
        elif isinstance(answer, Exception):
            failures += [(message, answer) for message in chunk.messages]
        else:
            raise answer
    if failures:
        raise SendsFailed(failures, len(made))
    return made


def _each(chunk: Chunk, whole: Receipt) -> list[Receipt]:
    """The answer names one id per message, or a single one where the batch is stored as one record."""
    ids = whole.offset_message_id.split(",")
    is_one = len(ids) != len(chunk.messages)
    return [
        Receipt(
            unique_key,
            whole.topic,
            whole.broker_name,
            whole.queue_id,
            whole.queue_offset + number,
            ids[0 if is_one else number],
            whole.status,
        )
        for number, unique_key in enumerate(chunk.unique_keys)
    ]
