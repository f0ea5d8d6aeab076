"""Tell every member of a group, not one of them: caches that must be emptied everywhere, settings that changed."""

import asyncio
import os
import tempfile

from cometmq import Message, Producer, PushConsumer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    def member(name: str, folder: str) -> PushConsumer:
        async def empty(message: ReceivedMessage) -> None:
            await heard.put(f"{name} empties {message.body.decode()}")

        # How far each one is, is kept on its own machine; two on one machine need an id each.
        made = PushConsumer("caches", namesrv=NAMESRV, broadcasting=True, offset_folder=folder, client_id=name)
        return made.subscribe("changed", empty)

    with tempfile.TemporaryDirectory() as folder:
        async with Producer("shop", namesrv=NAMESRV) as producer:
            await producer.create_topic("changed")
            async with member("first", folder), member("second", folder):
                await producer.send(Message("changed", b"prices"))
                for line in sorted([await heard.get(), await heard.get()]):
                    print(line)


asyncio.run(main())
