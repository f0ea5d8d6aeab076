"""Read queues as you like: from a position, again from the beginning, committing by yourself."""

import asyncio
import os

from cometmq import LitePullConsumer, Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def read(consumer: LitePullConsumer, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        found += [message.body.decode() for message in await consumer.poll()]
    return sorted(found)


async def main() -> None:
    async with Producer("reports", namesrv=NAMESRV) as producer:
        await producer.create_topic("reports", queues=2)
        for number in range(4):
            await producer.send(Message("reports", b"report %d" % number))
    async with LitePullConsumer("readers", namesrv=NAMESRV, auto_commit=False, start_from="first") as consumer:
        await consumer.assign(await consumer.queues("reports"))
        print("read", await read(consumer, 4))
        await consumer.seek_to_beginning()
        print("read again", await read(consumer, 4))
        await consumer.commit()


asyncio.run(main())
