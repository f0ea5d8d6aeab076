"""Keep the order of messages that belong together: one sharding key, one queue, one after the other."""

import asyncio
import os

from cometmq import Message, Producer, PushConsumer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
STEPS = ["created", "paid", "shipped"]
ORDERS = ["order-1", "order-2", "order-3"]


async def main() -> None:
    async with Producer("order-service", namesrv=NAMESRV) as producer:
        for step in STEPS:
            for order in ORDERS:
                await producer.send(Message("order-steps", step.encode(), sharding_key=order))

    heard: dict[str, list[str]] = {order: [] for order in ORDERS}
    all_heard = asyncio.Event()

    async def follow(message: ReceivedMessage) -> None:
        heard[message.sharding_key or ""].append(message.body.decode())
        if all(len(steps) == len(STEPS) for steps in heard.values()):
            all_heard.set()

    consumer = PushConsumer("followers", namesrv=NAMESRV, orderly=True, start_from="first")
    consumer.subscribe("order-steps", follow)
    async with consumer:
        await asyncio.wait_for(all_heard.wait(), 30)
    for order, steps in heard.items():
        print(order, "was", ", ".join(steps))


asyncio.run(main())
