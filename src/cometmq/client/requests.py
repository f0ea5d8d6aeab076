"""Request and reply: a message that waits for the answer of whoever consumes it.

The request names this client and a correlation id; the consumer's reply goes to the broker that the request came
through, and that pushes it here (326).

Mirrors: DefaultMQProducerImpl.request, MessageUtil.createReplyMessage, RequestFutureHolder.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from cometmq.client.message import Message, ReceivedMessage, check_message
from cometmq.client.preparing import Preparer
from cometmq.client.sending import REPLY
from cometmq.errors import ClientError, InvalidArgument, InvalidMessage, RequestTimedOut
from cometmq.model import properties

REPLY_TOPIC_SUFFIX: Final = "REPLY_TOPIC"
REPLY_TYPE: Final = "reply"
WAITING_MAX: Final = 65_536


async def ask(preparer: Preparer, message: Message, timeout_ms: int) -> ReceivedMessage:
    """Send `message` and wait for its reply."""
    check_message(message)
    sender = preparer.sender
    instance = sender.instance
    if timeout_ms <= 0:
        raise InvalidArgument(f"timeout_ms is {timeout_ms}, which leaves no time for a reply")
    if len(instance.replies) >= WAITING_MAX:
        raise ClientError(f"{WAITING_MAX} requests wait for replies already, the most that one client may have")
    correlation_id = str(uuid.uuid4())
    more = properties.render(
        {
            properties.CORRELATION_ID: correlation_id,
            properties.REPLY_TO_CLIENT: instance.client_id,
            properties.TTL: str(timeout_ms),
        }
    )
    queues = await sender.queues(message.topic)
    if message.sharding_key is None:
        queue = sender.choose(queues)
    else:
        queue = await preparer.pin(message)
    await instance.greeted(queue.broker_name or "")  # a broker that does not know us cannot push to us
    waiting: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
    instance.replies[correlation_id] = waiting
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            sending = await preparer.prepare(message, more, queue=queue, timeout_ms=timeout_ms)
            await (await sender.post(sending))
            return await waiting
    except TimeoutError:
        raise RequestTimedOut(
            f"no reply to the request to {message.topic} came within {timeout_ms} ms; does a consumer of it reply?"
        ) from None
    finally:
        instance.replies.pop(correlation_id, None)


async def answer(preparer: Preparer, to: ReceivedMessage, body: bytes) -> None:
    """Reply to a message that asked for it."""
    asked = to.properties
    client_id, correlation_id = asked.get(properties.REPLY_TO_CLIENT), asked.get(properties.CORRELATION_ID)
    cluster = asked.get(properties.CLUSTER)
    if client_id is None or correlation_id is None or cluster is None:
        raise InvalidMessage(f"message {to.message_id} asks for no reply: it was not sent with request()")
    message = Message(f"{cluster}_{REPLY_TOPIC_SUFFIX}", body)
    more = properties.render(
        {
            properties.MESSAGE_TYPE: REPLY_TYPE,
            properties.CORRELATION_ID: correlation_id,
            properties.REPLY_TO_CLIENT: client_id,
            properties.TTL: asked.get(properties.TTL, "3000"),
        }
    )
    sender = preparer.sender
    queues = await sender.queues(message.topic)
    # The asker is connected to the broker that took its request; of the others nobody knows.
    near = [queue for queue in queues if queue.broker_name == to.broker_name] or queues
    sending = await preparer.prepare(message, more, kind=REPLY, queue=sender.choose(near), attempts=1)
    await (await sender.post(sending))
