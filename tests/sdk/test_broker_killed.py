"""A broker that is killed under its clients and started again: they go on by themselves, and lose nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

from tests.original import Cluster
from tests.original.registration import registered
from tests.sdk.push_kit import new, until

from cometmq import Message, Producer, PushConsumer, ReceivedMessage
from cometmq.errors import CometError

COUNT = 1_500
KILL_AT = (300, 900)  # acknowledged messages
AT_ONCE = 20


async def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    heard: Counter[int] = Counter()
    acknowledged: set[int] = set()
    numbers = iter(range(COUNT))

    async def hear(message: ReceivedMessage) -> None:
        heard[int(message.body)] += 1

    def enough(count: int) -> bool:
        return len(acknowledged) >= count

    async def send(producer: Producer) -> None:
        for number in numbers:
            while number not in acknowledged:
                try:
                    await producer.send(Message("orders", b"%d" % number))
                except CometError:
                    await asyncio.sleep(0.05)
                else:
                    acknowledged.add(number)

    with Cluster("comet", tmp_path, flush="SYNC_FLUSH") as cluster:
        await registered(cluster.namesrv_addr)
        consumer = PushConsumer(new("group"), namesrv=cluster.namesrv_addr, start_from="first")
        async with Producer("sdk", namesrv=cluster.namesrv_addr) as producer:
            await producer.create_topic("orders")
            async with consumer.subscribe("orders", hear), asyncio.TaskGroup() as tasks:
                for _ in range(AT_ONCE):
                    tasks.create_task(send(producer))
                for count in KILL_AT:
                    await until(partial(enough, count), within_s=60)
                    cluster.broker.kill()
                    await asyncio.to_thread(cluster.broker.start)
                await until(lambda: len(acknowledged) == len(heard) == COUNT, within_s=60)
    # A send whose answer was lost is made again; the consumer remembers what it has consumed.
    assert heard.total() - COUNT <= AT_ONCE * len(KILL_AT)
