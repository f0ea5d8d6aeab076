"""What a consumer process does that is there to be killed: it writes down what it consumes.

A line is in the file before its message counts as consumed, so what the file lacks must come again to someone. It has
the message's body and when it was consumed, by the clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

from cometmq import PushConsumer, ReceivedMessage

UP: Final = "up"  # said once the consumer is ready


def consume(namesrv: str, group: str, topic: str, path: str) -> None:
    asyncio.run(_consume(namesrv, group, topic, path))


async def _consume(namesrv: str, group: str, topic: str, path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(name: bytes) -> None:
        os.write(file, b"%s %.6f\n" % (name, time.monotonic()))

    async def listen(message: ReceivedMessage) -> None:
        note(message.body)

    consumer = PushConsumer(group, namesrv=namesrv)
    consumer.subscribe(topic, listen)
    async with consumer:
        note(UP.encode())
        await consumer.run()
