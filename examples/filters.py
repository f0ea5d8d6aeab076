"""Hear only a part of a topic: by tags, or by an expression over properties, which the broker evaluates."""

import asyncio
import os
from datetime import timedelta

from cometmq import Message, Producer, SimpleConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer("shop", namesrv=NAMESRV) as producer:
        for name, tag, price in (("book", "eu", "8"), ("desk", "eu", "120"), ("lamp", "us", "40")):
            await producer.send(Message("sales", name.encode(), tags=tag, properties={"price": price}))

    soon = timedelta(seconds=1)  # `receive` ends when nothing came for so long
    async with SimpleConsumer("europe", namesrv=NAMESRV, start_from="first") as consumer:
        async for message in consumer.receive("sales", tags="eu || uk", wait=soon):
            print("sold in Europe:", message.body.decode())
            await message.ack()
    async with SimpleConsumer("dear", namesrv=NAMESRV, start_from="first") as consumer:
        # A broker must allow it: enablePropertyFilter=true.
        async for message in consumer.receive("sales", sql="price > 30 AND TAGS <> 'us'", wait=soon):
            print("dear:", message.body.decode())
            await message.ack()


asyncio.run(main())
