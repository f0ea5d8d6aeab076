"""Send a message that is delivered later, and call another one back before its time."""

import asyncio
import os
import time
from datetime import timedelta

from cometmq import LitePullConsumer, Message, Producer
from cometmq.errors import InvalidArgument, PeerRefused

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer("reminders", namesrv=NAMESRV) as producer:
        await producer.create_topic("reminders")
        begun = time.monotonic()
        await producer.send(Message("reminders", b"stand up"), delay=timedelta(seconds=1))
        perhaps = await producer.send(Message("reminders", b"perhaps"), delay=timedelta(minutes=5))
        try:
            await producer.recall("reminders", perhaps.recall_handle or "")
            print("called back", perhaps.message_id)
        except (PeerRefused, InvalidArgument) as fault:  # recallMessageEnable is off, as it is by default
            print("the broker does not allow recalls:", fault)

    async with LitePullConsumer("readers", namesrv=NAMESRV, start_from="first") as consumer:
        await consumer.subscribe("reminders")
        while not (messages := await consumer.poll()):
            pass
        print(messages[0].body.decode(), "came after", round(time.monotonic() - begun, 1), "s")


asyncio.run(main())
