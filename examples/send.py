"""Send a message and look at the receipt; then a thousand without waiting for each."""

import asyncio
import os

from cometmq import Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer("order-service", namesrv=NAMESRV) as producer:
        receipt = await producer.send(Message("orders", b"hello", tags="created", keys=["order-42"]))
        print("sent", receipt.message_id, "to queue", receipt.queue_id, "at", receipt.queue_offset)

        async with producer.pipeline(in_flight=200) as pipeline:  # waits only while 200 are under way
            for number in range(1000):
                await pipeline.send(Message("orders", b"order %d" % number))
        print("sent", len(pipeline.receipts), "more")


asyncio.run(main())
