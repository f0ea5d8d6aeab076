"""Apache RocketMQ's push consumer in pop mode: more consumers than queues, one that never finishes, priorities."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.interop.clients import JAVA_CLIENTS, Outcome, Program
from tests.interop.test_members import let_pop, make_topics
from tests.original import Cluster
from tests.original.cluster import Kind

from cometmq import Message, Producer, SimpleConsumer

pytestmark = pytest.mark.timeout(300)

CLIENT = JAVA_CLIENTS[0]
QUEUES = 2
PRIORITIES = range(4)


@pytest.fixture(scope="module")
def pop_cluster(server_kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(server_kind, tmp_path_factory.mktemp("pop")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def outcome(pop_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    crowd, priority = f"{CLIENT.prefix}_crowd", f"{CLIENT.prefix}_priority"
    make_topics(pop_cluster, [crowd], QUEUES)
    make_topics(pop_cluster, [priority], len(PRIORITIES), attributes="+message.type=PRIORITY")
    for topic in (crowd, priority):
        let_pop(pop_cluster, topic)
    asyncio.run(send_each_priority(pop_cluster, priority))
    return Program(CLIENT, pop_cluster, ["priority", "crowd"], tmp_path_factory.mktemp("client") / "run").finish()


async def send_each_priority(cluster: Cluster, topic: str) -> None:
    """The least urgent first."""
    async with Producer("urgent", namesrv=cluster.namesrv_addr) as producer:
        for priority in PRIORITIES:
            receipt = await producer.send(Message(topic, b"python %d" % priority, priority=priority))
            assert receipt.queue_id == priority


def test_more_consumers_than_queues_all_get_work(outcome: Outcome) -> None:
    facts = outcome["crowd"]
    assert facts["finished"] == facts["sent"], "every message is finished by somebody"
    assert len(facts["shares"]) > QUEUES
    assert all(facts["shares"].values()), "everybody gets something"
    assert len(facts["again"]) >= 1, "what the stuck one held came back"


def test_the_queue_is_the_priority_and_the_urgent_come_first(outcome: Outcome) -> None:
    facts = outcome["priority"]
    assert facts["sent"] == [[priority, priority] for priority in PRIORITIES]
    urgent_first = [f"{language} {priority}" for priority in reversed(PRIORITIES) for language in ("python", "java")]
    assert facts["got"] == [[body, int(body[-1]), body[-1]] for body in urgent_first]


async def test_the_urgent_of_java_come_first_here_too(pop_cluster: Cluster, outcome: Outcome) -> None:
    assert outcome["priority"]
    got: list[str] = []
    async with SimpleConsumer("urgent_here", namesrv=pop_cluster.namesrv_addr) as consumer:
        found = consumer.receive(f"{CLIENT.prefix}_priority", max_messages=1, wait=timedelta(seconds=10))
        async for message in found:
            got.append(message.body.decode())
            await message.ack()
            if len(got) == 2 * len(PRIORITIES):
                break
    assert got == [f"{language} {priority}" for priority in reversed(PRIORITIES) for language in ("python", "java")]
