"""The SDK's suite runs twice: against CometMQ in this process, and against Apache RocketMQ 5.5.0.

What RocketMQ 4.9 has is tried against that too, in test_older_broker.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import pytest
from tests.original import Cluster
from tests.original.registration import registered

from cometmq.client.instance import ClientInstance
from cometmq.client.message import ReceivedMessage
from cometmq.client.options import ClientOptions
from cometmq.errors import TopicNotFound
from cometmq.model.sysflag import PullFlag
from cometmq.testing.local_cluster import SETTINGS
from cometmq.testing.pytest_plugin import RunningCluster
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply, PullMessage

SHARED_SETTINGS: Final = {
    key: SETTINGS[key]
    for key in (
        "enablePropertyFilter",
        "messageDelayLevel",
        "recallMessageEnable",
        "transactionCheckInterval",
        "transactionTimeOut",
    )
}


class Server:
    """Where the tests send to."""

    def __init__(self, kind: str, namesrv: str) -> None:
        self.kind = kind
        self.namesrv = namesrv

    async def read(self, topic: str, count: int = 1, *, within_s: float = 15.0) -> list[ReceivedMessage]:
        """All messages of a topic, as soon as there are `count` of them, in the order of their queues."""
        instance = await ClientInstance.join(ClientOptions.of(self.namesrv))
        try:
            async with asyncio.timeout(within_s):
                while True:
                    # Name servers hear of a topic that a send created a moment after the send is answered.
                    with contextlib.suppress(TopicNotFound):
                        found = await self._read(instance, topic)
                        if len(found) >= count:
                            return found
                    await asyncio.sleep(0.02)
        finally:
            await instance.leave()

    async def _read(self, instance: ClientInstance, topic: str) -> list[ReceivedMessage]:
        await instance.route(topic, refresh=True)
        found: list[ReceivedMessage] = []
        for queue in instance.readable_queues(topic):
            assert queue.broker_name is not None
            answer = await instance.call(queue.broker_name, GetMaxOffset(topic, queue.queue_id))
            offset, end = 0, OffsetReply.read(answer.ext).offset
            while offset < end:
                request = PullMessage(
                    "sdk-reader", topic, queue.queue_id, offset, 32, int(PullFlag.SUBSCRIPTION), 0, 0, 0, "*"
                )
                answer = await instance.call(queue.broker_name, request)
                records = list(decode_records(answer.body))
                found += [ReceivedMessage(record, queue.broker_name) for record in records]
                offset = records[-1].queue_offset + 1
        return found


@pytest.fixture(scope="session")
def java_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # It notes the end of transactions in batches; before that it would ask of them, and commit a second time.
    conf = {**SHARED_SETTINGS, "transactionOpBatchInterval": "50"}
    with Cluster("java", tmp_path_factory.mktemp("java"), conf=conf) as running:
        asyncio.run(registered(running.namesrv_addr))
        yield running


@pytest.fixture
def comet(cometmq: RunningCluster) -> Server:
    """CometMQ alone: for what the client decides by itself, and would decide with any broker."""
    return Server("comet", cometmq.namesrv)


@pytest.fixture(params=["comet", "java"])
def server(request: pytest.FixtureRequest) -> Server:
    if request.param == "java":
        cluster: Cluster = request.getfixturevalue("java_cluster")
        return Server("java", cluster.namesrv_addr)
    local: RunningCluster = request.getfixturevalue("cometmq")
    return Server("comet", local.namesrv)
