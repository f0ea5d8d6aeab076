"""Consume with a function: returning means done, raising means again, later."""

import asyncio
import os

from cometmq import Message, Producer, ReceivedMessage, RetryLater, consumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
done = asyncio.Event()


@consumer("bills", group="billing", tags="created || paid", start_from="first")
async def bill(message: ReceivedMessage) -> None:
    if message.reconsume_times == 0:
        raise RetryLater("the printer is out of paper", delay_level=1)
    print("billed", message.body.decode(), "at attempt", message.reconsume_times + 1)
    done.set()


async def main() -> None:
    async with Producer("order-service", namesrv=NAMESRV) as producer:
        await producer.send(Message("bills", b"order-42", tags="created"))
        await producer.send(Message("bills", b"order-43", tags="cancelled"))  # nobody asked for these
    async with bill.consuming(namesrv=NAMESRV):  # a program would say cometmq.run(bill, namesrv=…)
        await asyncio.wait_for(done.wait(), 30)


asyncio.run(main())
