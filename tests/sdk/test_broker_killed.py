"""Servers that are killed under their clients and started again: they go on by themselves, and lose nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.original import Cluster
from tests.original.registration import registered
from tests.sdk.push_kit import new, until

from cometmq import Message, Producer, PushConsumer, ReceivedMessage
from cometmq.errors import CometError

COUNT = 1_500
NAME_SERVER_KILLED_AT = 300  # acknowledged messages
BROKER_KILLED_AT = {"comet": (600, 1_000), "java": (600,)}  # which needs seconds to start
AT_ONCE = 20


@pytest.fixture(params=["comet", "java"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "java":  # that of the other tests: none of them runs now, and starting one takes seconds
        shared: Cluster = request.getfixturevalue("java_cluster")
        yield shared
        asyncio.run(registered(shared.namesrv_addr))  # for those that come next
        return
    with Cluster("comet", tmp_path) as running:
        asyncio.run(registered(running.namesrv_addr))
        yield running


@asynccontextmanager
async def sending(producer: Producer, topic: str, acknowledged: set[int]) -> AsyncIterator[None]:
    """Send `COUNT` numbers meanwhile, each until it is acknowledged."""
    numbers = iter(range(COUNT))

    async def send() -> None:
        for number in numbers:
            while number not in acknowledged:
                try:
                    await producer.send(Message(topic, b"%d" % number))
                except CometError:
                    await asyncio.sleep(0.05)
                else:
                    acknowledged.add(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(send())
        yield


async def test_nothing_acknowledged_is_lost(cluster: Cluster) -> None:
    heard: Counter[int] = Counter()
    acknowledged: set[int] = set()
    topic = new()
    broker_killed_at = BROKER_KILLED_AT[cluster.kind]

    async def hear(message: ReceivedMessage) -> None:
        heard[int(message.body)] += 1

    def enough(count: int) -> bool:
        return len(acknowledged) >= count

    consumer = PushConsumer(new("group"), namesrv=cluster.namesrv_addr, start_from="first")
    async with Producer("sdk", namesrv=cluster.namesrv_addr) as producer:
        await producer.create_topic(topic)
        async with consumer.subscribe(topic, hear), sending(producer, topic, acknowledged):
            await until(partial(enough, NAME_SERVER_KILLED_AT), within_s=60)
            (name_server,) = cluster.namesrvs
            name_server.kill()
            for count in broker_killed_at:
                await until(partial(enough, count), within_s=60)
                cluster.broker.kill()
                if not name_server.running:
                    await asyncio.to_thread(name_server.start)
                await asyncio.to_thread(cluster.broker.start)
            await until(lambda: len(acknowledged) == len(heard) == COUNT, within_s=60)
    # A send whose answer was lost is made again; the consumer remembers what it has consumed.
    assert heard.total() - COUNT <= AT_ONCE * len(broker_killed_at)
