"""What a broker goes through before the classes that it loaded are written down: a start, a few messages, a stop."""

from __future__ import annotations

import asyncio

from cometmq import Message, Producer, PushConsumer, ReceivedMessage

from .registration import registered


async def send_and_consume(namesrv: str) -> None:
    """Everyday traffic: a topic is made, messages go in, a group takes them out."""
    await registered(namesrv)
    heard = asyncio.Event()

    async def hear(_: ReceivedMessage) -> None:
        heard.set()

    async with Producer("trainers", namesrv=namesrv) as producer, asyncio.timeout(60):
        await producer.create_topic("training", queues=1)
        await producer.send(Message("training", b"hello", keys=["greeting"]))
        async with PushConsumer("trainees", namesrv=namesrv, start_from="first").subscribe("training", hear):
            await heard.wait()
