"""The shared instance: routes, fail-over, heartbeats, and nothing left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from cometmq.client.instance import ClientInstance
from cometmq.client.message import ReceivedMessage
from cometmq.client.options import ClientOptions
from cometmq.errors import BrokerUnreachable, PeerUnreachable, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import SubscriptionData
from cometmq.testing.local_cluster import LocalCluster
from cometmq.wire.bodies.heartbeat import ConsumerData
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply


class Member:
    """A consumer that only notes what it is told."""

    def __init__(self, group: str = "g") -> None:
        self.group = group
        self.changes = asyncio.Event()
        self.routes: list[str] = []

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(self.group, subscriptions=[SubscriptionData("orders")])

    def members_changed(self) -> None:
        self.changes.set()

    def route_changed(self, topic: str) -> None:
        self.routes.append(topic)

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None: ...

    def consumed_offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {}

    def running_info(self) -> dict[str, Any]:
        return {}

    async def consume_directly(self, message: ReceivedMessage) -> dict[str, Any]:
        return {}


async def test_a_cluster_is_up_at_once() -> None:
    begun = time.process_time()  # of this process alone, whatever else the machine has to do
    async with LocalCluster():
        assert time.process_time() - begun < 0.3
    assert len(asyncio.all_tasks()) == 1


async def test_routes_and_members() -> None:
    async with LocalCluster(brokers=2) as cluster:
        await cluster.create_topic("orders", 2)
        options = ClientOptions.of(cluster.namesrv)
        first = await ClientInstance.join(options, apart_from="g")
        with pytest.raises(TopicNotFound):
            await first.route("absent")
        await first.route("orders")
        assert len(first.readable_queues("orders")) == 4
        member, other = Member(), Member()
        await first.add_consumer(member)
        assert await ClientInstance.join(options) is first  # shared, by who does not mind
        second = await ClientInstance.join(options, apart_from="g")
        assert second is not first
        member.changes.clear()
        await second.route("orders")
        await second.add_consumer(other)
        async with asyncio.timeout(5):
            await member.changes.wait()
        assert sorted(await first.consumer_ids("orders", "g")) == sorted({first.client_id, second.client_id})
        answer = await first.call("broker-b", GetMaxOffset("orders", 0))
        assert OffsetReply.read(answer.ext).offset == 0
        await second.remove_consumer(other)
        assert await first.consumer_ids("orders", "g") == [first.client_id]
        for instance in (first, first, second):
            await instance.leave()
        assert first.is_closed
        assert second.is_closed
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_the_second_name_server_is_asked() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        instance = await ClientInstance.join(ClientOptions.of(f"127.0.0.1:1;{cluster.namesrv}"))
        await instance.route("orders")
        await instance.leave()
        nowhere = await ClientInstance.join(ClientOptions.of("127.0.0.1:1"))
        with pytest.raises(PeerUnreachable, match="no name server answers"):
            await nowhere.route("orders")
        await nowhere.leave()


async def test_an_address_server_tells_where_the_name_servers_are() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        told = {"/nsaddr": cluster.namesrv, "/nothing": "", "/page": "<html>"}

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            writer.write(f"HTTP/1.0 200 OK\r\n\r\n{told[path]}".encode())
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = "http://{}:{}".format(*server.sockets[0].getsockname())
            instance = await ClientInstance.join(ClientOptions.of(f"{url}/nsaddr"))
            await instance.route("orders")
            await instance.leave()
            for path in ("/nothing", "/page"):
                lost = await ClientInstance.join(ClientOptions.of(url + path))
                with pytest.raises(PeerUnreachable, match=f"{url}{path} tells no address"):
                    await lost.route("orders")
                await lost.leave()


async def test_an_advertised_address_that_leads_nowhere() -> None:
    async with LocalCluster({"brokerIP1": "127.255.255.254"}) as cluster:
        instance = await ClientInstance.join(ClientOptions.of(cluster.namesrv))
        queues = await instance.writable_queues("new")
        assert len(queues) == 4
        instance.routes.brokers["broker-a"][0] = "127.0.0.1:1"
        with pytest.raises(BrokerUnreachable, match="brokerIP1"):
            await instance.channel("broker-a")
        await instance.leave()


async def test_a_broker_that_comes_back_knows_its_members() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        instance = await ClientInstance.join(ClientOptions.of(cluster.namesrv), apart_from="g")
        await instance.route("orders")
        await instance.add_consumer(Member())
        await cluster.stop_broker()
        with pytest.raises(PeerUnreachable):
            await instance.call("broker-a", GetMaxOffset("orders", 0))
        await cluster.start_broker()
        for _ in range(500):
            if await instance.consumer_ids("orders", "g"):
                break
            await asyncio.sleep(0.01)
        assert await instance.consumer_ids("orders", "g") == [instance.client_id]
        await instance.leave()
