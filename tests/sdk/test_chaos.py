"""Connections cut at any byte: nothing acknowledged is lost, and the client recovers by itself.

Brokers stand behind a proxy: CometMQ's listens on 127.0.0.1 and advertises 127.0.0.2. To start a Java broker for that
would take longer than the test, so that of the other tests is used, and its clients are sent astray.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

import pytest
from tests.original import Cluster

from cometmq import Message, Producer, SimpleConsumer
from cometmq.client.route_cache import RouteCache
from cometmq.errors import PeerError, SendFailed
from cometmq.testing.chaos_proxy import ChaosProxy
from cometmq.testing.local_cluster import LocalCluster

PROXY_HOST = "127.0.0.2"
INVISIBLE = timedelta(seconds=1)


@pytest.fixture(params=["comet", "java"])
def java(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cluster | None:
    """The original, whose clients look for it where the proxy is; or None for CometMQ."""
    if request.param == "comet":
        return None
    cluster: Cluster = request.getfixturevalue("java_cluster")
    gather = RouteCache._gather_brokers

    def astray(self: RouteCache) -> None:
        gather(self)
        for addrs in self.brokers.values():
            addrs.update({one: addr.replace("127.0.0.1", PROXY_HOST) for one, addr in addrs.items()})

    monkeypatch.setattr(RouteCache, "_gather_brokers", astray)
    return cluster


@asynccontextmanager
async def behind_a_proxy(java: Cluster | None) -> AsyncIterator[tuple[str, ChaosProxy]]:
    """A cluster whose clients all go through the proxy: (name servers, proxy)."""
    async with AsyncExitStack() as stack:
        if java is not None:
            namesrv, port = java.namesrv_addr, java.broker.port
        else:
            local = await stack.enter_async_context(LocalCluster({"brokerIP1": PROXY_HOST}))
            namesrv, port = local.namesrv, local.broker.port
        proxy = ChaosProxy(f"127.0.0.1:{port}", host=PROXY_HOST, port=port)
        yield namesrv, await stack.enter_async_context(proxy)


async def test_cut_at_random_bytes(java: Cluster | None) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    count = 300 if java is None else 100
    topic, group = f"topic-{uuid.uuid4().hex}", f"group-{uuid.uuid4().hex}"
    async with asyncio.timeout(110), behind_a_proxy(java) as (namesrv, proxy):
        async with Producer("chaos", namesrv=namesrv, retries=5) as producer:
            await producer.create_topic(topic, queues=4)
        proxy.cut_often(chance, 1, 12_000)
        acknowledged: set[bytes] = set()
        received: Counter[bytes] = Counter()
        is_sent = asyncio.Event()

        async def send() -> None:
            async with Producer("chaos", namesrv=namesrv, retries=5) as producer:
                for number in range(count):
                    body = b"%d-" % number + bytes(chance.randrange(97, 123) for _ in range(chance.randrange(400)))
                    try:
                        await producer.send(Message(topic, body))
                    except SendFailed:
                        continue  # not acknowledged: may be there or not
                    acknowledged.add(body)
            while True:
                if len(received) >= count // 10:
                    break
                await asyncio.sleep(0.02)
            is_sent.set()
            proxy.behave()  # what is left comes in peace

        async def receive() -> None:
            async with SimpleConsumer(group, namesrv=namesrv, start_from="first") as consumer:
                # Few at a time: an answer longer than the distance of the cuts would never arrive.
                async for message in consumer.receive(topic, max_messages=4, invisible=INVISIBLE):
                    received[message.body] += 1
                    with suppress(PeerError):  # it comes again
                        await message.ack()
                    if is_sent.is_set() and acknowledged <= received.keys():
                        return

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            tasks.create_task(receive())
        assert proxy.cuts > 10
        assert len(acknowledged) > count // 2
        assert acknowledged <= received.keys()


async def test_black_hole_and_delay() -> None:
    """A broker that is reachable and silent, then slow: calls end in time, and all goes on afterwards."""
    async with asyncio.timeout(60), LocalCluster({"brokerIP1": PROXY_HOST}) as cluster:
        port = cluster.broker.port
        async with (
            ChaosProxy(f"127.0.0.1:{port}", host=PROXY_HOST, port=port) as proxy,
            Producer("p", namesrv=cluster.namesrv, send_timeout_ms=500, request_timeout_ms=500) as producer,
            SimpleConsumer("g", namesrv=cluster.namesrv, start_from="first", request_timeout_ms=500) as consumer,
        ):
            await cluster.create_topic("orders")
            await producer.send(Message("orders", b"1"))
            (message,) = await consumer.pop("orders")
            await message.ack()
            proxy.swallows = True
            with pytest.raises(SendFailed):
                await producer.send(Message("orders", b"2"))
            proxy.behave()
            proxy.cut()
            proxy.delay_s = 0.05
            await producer.send(Message("orders", b"3"))
            async for message in consumer.receive("orders"):
                await message.ack()
                if message.body == b"3":
                    break
