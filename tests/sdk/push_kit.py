"""What the tests of push consumers share."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tests.sdk.conftest import Server

from cometmq import Message, Producer, PushConsumer, ReceivedMessage

WAIT_S = 30.0


def new(kind: str = "topic") -> str:
    return f"{kind}-{uuid.uuid4().hex}"


async def until(condition: Callable[[], bool], *, within_s: float = WAIT_S) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Heard:
    """A listener that remembers; `bodies` are numbers."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []

    async def __call__(self, message: ReceivedMessage) -> None:
        self.messages.append(message)

    @property
    def numbers(self) -> list[int]:
        return [int(message.body) for message in self.messages]

    @property
    def counts(self) -> Counter[int]:
        return Counter(self.numbers)


@asynccontextmanager
async def producing(server: Server, topic: str, queues: int = 4) -> AsyncIterator[Producer]:
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic, queues=queues)
        yield producer


async def send(
    producer: Producer, topic: str, numbers: Iterable[int], *, key: str | None = None, tags: str | None = None
) -> None:
    # The original takes sends in several threads: who wants their order there waits for each.
    async with producer.pipeline(in_flight=100 if key is None else 1, keep_receipts=False) as pipeline:
        for number in numbers:
            await pipeline.send(Message(topic, b"%d" % number, sharding_key=key, tags=tags))


def consuming(
    server: Server, group: str, topic: str, listener: object, **options: object
) -> AbstractAsyncContextManager[PushConsumer]:
    """A consumer that begins with the first message."""
    about = {name: options.pop(name) for name in ("tags", "sql", "batch") if name in options}
    made = PushConsumer(group, namesrv=server.namesrv, start_from="first", **options)  # type: ignore[arg-type]
    return made.subscribe(topic, listener, **about)  # type: ignore[arg-type]
