"""What a consumer process does that is there to be killed: it writes down what it consumes.

A line is in the file before its message counts as consumed, so what the file lacks must come again to someone.
"""

from __future__ import annotations

import asyncio
import os

from cometmq import PushConsumer, ReceivedMessage


def consume(namesrv: str, group: str, topic: str, path: str) -> None:
    asyncio.run(_consume(namesrv, group, topic, path))


async def _consume(namesrv: str, group: str, topic: str, path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    async def listen(message: ReceivedMessage) -> None:
        os.write(file, message.body + b"\n")

    consumer = PushConsumer(group, namesrv=namesrv)
    consumer.subscribe(topic, listen)
    async with consumer:
        os.write(file, b"up\n")
        await consumer.run()
