"""Push consumption while brokers restart and connections are cut: nothing lost, order kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from tests.sdk.push_kit import new, until

from cometmq import Message, Producer, PushConsumer, ReceivedMessage
from cometmq.errors import CometError
from cometmq.testing.chaos_proxy import ChaosProxy
from cometmq.testing.local_cluster import LocalCluster

KEYS = 3


@asynccontextmanager
async def chaotic() -> AsyncIterator[tuple[LocalCluster, ChaosProxy]]:
    """A cluster whose broker is reached through a proxy."""
    async with LocalCluster({"brokerIP1": "127.0.0.2"}) as cluster:
        port = cluster.broker.port
        async with ChaosProxy(f"127.0.0.1:{port}", host="127.0.0.2", port=port) as proxy:
            yield cluster, proxy


async def send_all(producer: Producer, numbers: range) -> None:
    """Send until each is acknowledged, one after the other per key."""
    for number in numbers:
        while True:
            try:
                await producer.send(Message("orders", b"%d" % number, sharding_key=f"key-{number % KEYS}"))
                break
            except CometError:
                await asyncio.sleep(0.05)


def check_order(heard: list[tuple[str, int]]) -> None:
    """Each message at least once; one that comes again brings all after it again."""
    for key in range(KEYS):
        mine = [number for name, number in heard if name == f"key-{key}"]
        for before, after in pairwise(mine):
            assert after <= before + KEYS, f"{after} came right after {before}"


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_a_broker_that_restarts(orderly: bool) -> None:
    heard: list[tuple[str, int]] = []

    async def hear(message: ReceivedMessage) -> None:
        heard.append((str(message.sharding_key), int(message.body)))

    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        consumer = PushConsumer(new("group"), namesrv=cluster.namesrv, start_from="first", orderly=orderly)
        async with Producer("sdk", namesrv=cluster.namesrv) as producer, consumer.subscribe("orders", hear):
            await send_all(producer, range(60))
            await until(lambda: len(heard) >= 60)
            await cluster.stop_broker()
            await asyncio.sleep(0.1)
            await cluster.start_broker()
            await send_all(producer, range(60, 120))
            await until(lambda: {number for _, number in heard} == set(range(120)))
    if orderly:
        check_order(heard)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_connections_cut_at_any_byte(orderly: bool) -> None:
    heard: list[tuple[str, int]] = []
    count = 300

    async def hear(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.001)
        heard.append((str(message.sharding_key), int(message.body)))

    async with chaotic() as (cluster, proxy):
        await cluster_topic(cluster)
        consumer = PushConsumer(new("group"), namesrv=cluster.namesrv, start_from="first", orderly=orderly)
        async with Producer("sdk", namesrv=cluster.namesrv) as producer, consumer.subscribe("orders", hear):
            await send_all(producer, range(count // 2))
            proxy.cut_often(random.Random(7), 500, 20_000)
            await send_all(producer, range(count // 2, count))
            proxy.behave()
            await until(lambda: {number for _, number in heard} == set(range(count)))
            assert proxy.cuts > 3
    if orderly:
        check_order(heard)


async def cluster_topic(cluster: LocalCluster) -> None:
    async with Producer("sdk", namesrv=cluster.namesrv) as producer:
        await producer.create_topic("orders")


async def test_nobody_there() -> None:
    consumer = PushConsumer("group", namesrv="127.0.0.1:1", connect_timeout_ms=200).subscribe("orders", print)
    before = asyncio.all_tasks()
    with pytest.raises(CometError):
        await consumer.start()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before
