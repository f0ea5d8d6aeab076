"""What brokers know of a client: by heartbeats of version 1 and 2, again and again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from tests.sdk.conftest import Server

from cometmq import Message, MessageQueue, Producer, ReceivedMessage
from cometmq.client.instance import ClientInstance
from cometmq.client.options import ClientOptions
from cometmq.model.subscription import SubscriptionData
from cometmq.wire.bodies.heartbeat import ConsumerData
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import PullMessage


class Member:
    """A consumer that only says what it wants."""

    def __init__(self, topic: str) -> None:
        self.group = f"group-{uuid.uuid4().hex}"
        self.topics = [topic]

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(self.group, subscriptions=[SubscriptionData(topic, sub_version=1) for topic in self.topics])

    def members_changed(self) -> None: ...

    def route_changed(self, topic: str) -> None: ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None: ...

    def consumed_offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {}

    def running_info(self) -> dict[str, Any]:
        return {}

    async def consume_directly(self, message: ReceivedMessage) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("version_2", [True, False], ids=["v2", "v1"])
async def test_subscriptions_stay_known(server: Server, version_2: bool) -> None:
    topics = [f"topic-{uuid.uuid4().hex}" for _ in range(2)]
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        for topic in topics:
            await producer.create_topic(topic, queues=1)
            await producer.send(Message(topic, b"1"))
    options = ClientOptions.of(server.namesrv, heartbeat_v2=version_2)
    member = Member(topics[0])
    instance = await ClientInstance.join(options, apart_from=member.group)
    for topic in topics:
        await instance.route(topic)

    async def pull(topic: str) -> int:
        """By the subscription that the broker knows: the request brings none."""
        request = PullMessage(member.group, topic, 0, 0, 1, 0, 0, 0, 1)
        return (await instance.exchange("broker-a", request)).code

    await instance.add_consumer(member)
    for _ in range(3):
        assert await pull(topics[0]) == ResponseCode.SUCCESS
        await instance.heartbeat_now()
    assert await pull(topics[1]) == ResponseCode.SUBSCRIPTION_NOT_EXIST
    member.topics.append(topics[1])
    await instance.heartbeat_now()
    assert await pull(topics[1]) == ResponseCode.SUCCESS
    assert await instance.consumer_ids(topics[0], member.group) == [instance.client_id]
    await instance.remove_consumer(member)
    assert await instance.consumer_ids(topics[0], member.group) == []
    await instance.leave()
