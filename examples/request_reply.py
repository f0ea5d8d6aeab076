"""Ask over a topic, and wait for the answer of whoever consumes it."""

import asyncio
import os

from cometmq import Message, Producer, PushConsumer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer("askers", namesrv=NAMESRV) as producer:
        await producer.create_topic("questions")

        async def answer(message: ReceivedMessage) -> None:
            await producer.reply(message, message.body.upper())

        consumer = PushConsumer("answerers", namesrv=NAMESRV, start_from="first")
        consumer.subscribe("questions", answer)
        async with consumer:
            reply = await producer.request(Message("questions", b"how are you?"), timeout_ms=10_000)
            print("the answer:", reply.body.decode())


asyncio.run(main())
