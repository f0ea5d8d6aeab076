"""Receive messages one by one; each is acknowledged on its own, or comes again when its time is up."""

import asyncio
import os
from datetime import timedelta

from cometmq import Message, Producer, SimpleConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer("tasks", namesrv=NAMESRV) as producer:
        await producer.send_batch([Message("tasks", b"task %d" % number) for number in range(3)])
    async with SimpleConsumer("workers", namesrv=NAMESRV) as consumer:
        left = 3
        async for message in consumer.receive("tasks", invisible=timedelta(seconds=30), wait=timedelta(seconds=10)):
            print("worked on", message.body.decode())
            await message.ack()
            left -= 1
            if not left:
                break


asyncio.run(main())
