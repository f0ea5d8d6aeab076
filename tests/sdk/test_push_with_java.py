"""A Java and a Python member of one group: they divide the queues, and take them over from each other in order."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.interop.clients import client_jars
from tests.original.jars import VERSION
from tests.original.programs import java_program
from tests.sdk.conftest import Server
from tests.sdk.push_kit import consuming, new, producing, until

from cometmq import Message, Producer, ReceivedMessage
from cometmq.wire import fastjson
from cometmq.wire.requests.clients import ConsumeMessageDirectly, GetConsumerRunningInfo

PROGRAM = Path(__file__).parent / "java" / "Member.java"
QUEUES = 4
START_S = 120.0  # a JVM on a machine that has much else to do


@asynccontextmanager
async def java_member(server: Server, group: str, topic: str, heard: list[tuple[int, int]]) -> AsyncIterator[Process]:
    command = java_program(PROGRAM, client_jars(VERSION))
    running = await asyncio.create_subprocess_exec(
        *command, server.namesrv, group, topic, stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert running.stdin is not None
    assert running.stdout is not None

    async def read() -> None:
        assert running.stdout is not None
        async for line in running.stdout:
            queue, _, number = line.decode().strip().partition(" ")
            if number.isdecimal():
                heard.append((int(queue), int(number)))

    reading = asyncio.create_task(read())
    try:
        yield running
        running.stdin.close()
        await asyncio.wait_for(running.wait(), 30)
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
        await reading


async def ask_through_the_broker(producer: Producer, group: str, client_id: str) -> None:
    """What operators ask of a Java consumer: the broker hands it on."""
    info = await producer.instance.call("broker-a", GetConsumerRunningInfo(group, client_id, True))
    assert b'"PROP_CONSUMEORDERLY":"true"' in bytes(info.body)
    assert b"jstack" in bytes(info.body)
    sent = await producer.send(Message(new(), b"at once"))
    request = ConsumeMessageDirectly(group, client_id, sent.offset_message_id)
    result = await producer.instance.call("broker-a", request)
    assert fastjson.loads(result.body)["consumeResult"] == "CR_SUCCESS"


@pytest.mark.timeout(400)
async def test_members_of_two_languages(server: Server) -> None:
    topic, group = new(), new("group")
    ours: list[tuple[int, int]] = []
    theirs: list[tuple[int, int]] = []

    async def hear(message: ReceivedMessage) -> None:
        ours.append((message.queue_id, int(message.body)))

    async with producing(server, topic, QUEUES) as producer:
        queues = await producer.queues(topic)

        async def send_each(start: int) -> None:
            for number in range(start, start + 40):
                await asyncio.gather(*[producer.send(Message(topic, b"%d" % number), queue=one) for one in queues])

        async with consuming(server, group, topic, hear, orderly=True) as consumer:
            await send_each(0)
            async with java_member(server, group, topic, theirs):
                await until(lambda: sum(queue.topic == topic for queue in consumer.queues) == 2, within_s=START_S)
                await send_each(40)
                await until(lambda: len({*ours, *theirs}) == 80 * QUEUES, within_s=START_S)
                held = {queue.queue_id for queue in consumer.queues if queue.topic == topic}
                assert {queue for queue, _ in theirs} == set(range(QUEUES)) - held
                members = set(await producer.instance.consumer_ids(topic, group))
                (other,) = members - {consumer.instance.client_id}
                await ask_through_the_broker(producer, group, other)
            await until(lambda: sum(queue.topic == topic for queue in consumer.queues) == QUEUES, within_s=START_S)
            await send_each(80)
            await until(lambda: len({*ours, *theirs}) == 120 * QUEUES)
    for queue in range(QUEUES):
        assert len({number for one, number in theirs if one == queue}) in (0, 40)
        mine = [number for one, number in ours if one == queue]
        assert mine == sorted(set(mine))
    # A Java member that leaves waits for no answer to its last commits, so some of what it had may come to us again.
    assert all(one in theirs for one, times in Counter([*ours, *theirs]).items() if times > 1)
