"""Apache RocketMQ's push consumer in pop mode: more consumers than queues, and one that never finishes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.interop.clients import JAVA_CLIENTS, Program
from tests.original import Cluster
from tests.original.cluster import Kind

from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.bodies.assignment import POP, RequestMode
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.members import SetMessageRequestMode

pytestmark = pytest.mark.timeout(300)

QUEUES = 2


def test_more_consumers_than_queues_all_get_work(server_kind: Kind, tmp_path: Path) -> None:
    client = JAVA_CLIENTS[0]
    topic = f"{client.prefix}_crowd"
    with Cluster(server_kind, tmp_path / "cluster") as cluster:
        asyncio.run(let_pop(cluster, topic))
        facts = Program(client, cluster, ["crowd"], tmp_path / "client").finish()["crowd"]
    assert facts["finished"] == facts["sent"], "every message is finished by somebody"
    assert len(facts["shares"]) > QUEUES
    assert all(facts["shares"].values()), "everybody gets something"
    assert len(facts["again"]) >= 1, "what the stuck one held came back"


async def let_pop(cluster: Cluster, topic: str) -> None:
    channel = await connect(cluster.broker.addr)
    create = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    await channel.call(create, timeout_ms=10_000)
    mode = RequestMode(topic, topic, POP)
    await channel.call(SetMessageRequestMode(), fastjson.dumps(mode.to_json()), timeout_ms=10_000)
    channel.close()
