"""Pulling: the program decides when, from where, and what is done."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.sdk.conftest import Server

from cometmq import LitePullConsumer, Message, MessageQueue, Producer, ReceivedMessage
from cometmq.errors import ClientClosed, ClientError, CometError, InvalidArgument, TopicNotFound
from cometmq.testing.local_cluster import LocalCluster

SHORT = timedelta(milliseconds=300)


def new(kind: str = "topic") -> str:
    return f"{kind}-{uuid.uuid4().hex}"


async def fill(server: Server, topic: str, numbers: range, queues: int = 4) -> None:
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        if numbers.start == 0:
            await producer.create_topic(topic, queues=queues)
        for number in numbers:
            tag = ("Aa", "BB", "c")[number % 3]
            await producer.send(Message(topic, b"%d" % number, tags=tag, properties={"n": str(number)}))


def consumer(server: Server, group: str | None = None, **options: object) -> LitePullConsumer:
    options = {"start_from": "first", **options}
    return LitePullConsumer(group or new("group"), namesrv=server.namesrv, **options)  # type: ignore[arg-type]


async def drain(one: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await one.poll(max_messages=7)
    return found


def numbers(messages: list[ReceivedMessage]) -> list[int]:
    return sorted(int(message.body) for message in messages)


async def reads(one: LitePullConsumer, queues: int) -> None:
    while True:
        if len(one.assignment) == queues:
            return
        await asyncio.sleep(0.02)


async def test_subscribe_and_commit(server: Server) -> None:
    topic, group = new(), new("group")
    await fill(server, topic, range(40))
    async with consumer(server, group) as one:
        await one.subscribe(topic)
        assert one.assignment == set(await one.queues(topic))
        found = await drain(one, 40)
        assert numbers(found) == list(range(40))
        for queue in one.assignment:
            offsets = [message.queue_offset for message in found if message.queue == queue]
            assert offsets == list(range(len(offsets)))
            assert one.position(queue) == len(offsets)
        assert await one.poll(SHORT) == []
        queues = len(one.assignment)
        assert one.counters == {"given": 40, "held_messages": 0, "held_bytes": 0, "queues": queues}
        await one.commit()  # and have it answered: the original takes commits and questions in different threads
    async with consumer(server, group) as again:
        await again.subscribe(topic)
        assert await again.poll(SHORT) == []
        await fill(server, topic, range(40, 43))
        assert numbers(await drain(again, 3)) == [40, 41, 42]
    assert len(asyncio.all_tasks()) == 1


async def test_what_is_not_done_comes_again(server: Server) -> None:
    topic, group = new(), new("group")
    await fill(server, topic, range(10), queues=1)
    with pytest.raises(KeyError):
        async with consumer(server, group) as one:
            await one.subscribe(topic)
            assert len(await one.poll(max_messages=4)) == 4
            assert len(await one.poll(max_messages=2)) == 2
            raise KeyError
    async with consumer(server, group, auto_commit=False) as other:
        await other.subscribe(topic)
        (queue,) = other.assignment
        assert await other.committed(queue) == 4
        assert numbers(await other.poll(max_messages=2)) == [4, 5]
        await other.commit()
        assert await other.committed(queue) == 6
        await other.poll(max_messages=2)
        await other.commit({queue: 7})
    async with consumer(server, group) as third:
        await third.subscribe(topic)
        assert numbers(await drain(third, 3)) == [7, 8, 9]


async def test_commits_in_time(server: Server) -> None:
    topic = new()
    await fill(server, topic, range(3), queues=1)
    async with consumer(server, auto_commit_interval=timedelta(milliseconds=50)) as one, asyncio.timeout(10):
        await one.subscribe(topic)
        (queue,) = one.assignment
        await drain(one, 3)
        await one.poll(timedelta(0))
        while True:
            if await one.committed(queue) == 3:
                break
            await asyncio.sleep(0.02)


async def test_assign_and_seek(server: Server) -> None:
    topic = new()
    before = datetime.now(UTC) - timedelta(seconds=5)
    await fill(server, topic, range(20), queues=2)
    async with consumer(server, auto_commit=False) as one:
        first, second = await one.queues(topic)
        await one.assign([first])
        mine = await drain(one, 10)
        assert {message.queue for message in mine} == {first}
        waiting = asyncio.create_task(one.poll())  # the broker holds a pull at the end now
        await asyncio.sleep(0.2)
        await one.seek(first, 7)
        assert [message.queue_offset for message in await waiting] == [7, 8, 9]
        await one.seek_to_beginning()
        assert one.positions == {first: 0}
        assert len(await drain(one, 10)) == 10
        await one.seek_to_beginning(first)
        await one.seek_to_end(first)
        assert await one.poll(SHORT) == []
        assert (await one.beginning(first), await one.end(first)) == (0, 10)
        assert await one.offset_for_time(first, before) == 0
        assert await one.offset_for_time(first, datetime.now(UTC) + timedelta(days=1)) in (9, 10)
        middle = mine[5].store_time
        assert await one.offset_for_time(first, middle) <= 5
        for offset in (-1, 11):
            with pytest.raises(InvalidArgument):
                await one.seek(first, offset)
        with pytest.raises(InvalidArgument):
            await one.seek(second, 0)
        await one.assign([second])
        assert {message.queue for message in await drain(one, 10)} == {second}
        with pytest.raises(InvalidArgument):
            await one.assign([MessageQueue(topic, first.broker_name, 99)])
        with pytest.raises(ClientError):
            await one.subscribe(topic)
        # RocketMQ 4.9 says 0 of a group that it does not know, while a topic is young.
        assert await one.committed(second) in ([0] if server.kind == "older" else [None])


async def test_pause_and_resume(server: Server) -> None:
    topic = new()
    await fill(server, topic, range(20), queues=2)
    async with consumer(server) as one:
        await one.subscribe(topic)
        first, second = sorted(one.assignment)
        one.pause(first)
        assert {message.queue for message in await drain(one, 10)} == {second}
        assert await one.poll(SHORT) == []
        waiting = asyncio.create_task(one.poll())
        await asyncio.sleep(0.05)
        one.resume(first)
        assert {message.queue for message in await waiting} == {first}
        one.pause()
        assert await one.poll(SHORT) == []


@pytest.mark.parametrize("mode", ["subscribe", "assign"])
async def test_filters(server: Server, mode: str) -> None:
    topic = new()
    await fill(server, topic, range(12))

    async def read(count: int, **wanted: str) -> list[int]:
        async with consumer(server) as one:
            if mode == "subscribe":
                await one.subscribe(topic, **wanted)  # type: ignore[arg-type]
            else:
                await one.assign(await one.queues(topic), **wanted)  # type: ignore[arg-type]
            found = await drain(one, count)
            return numbers(found + await one.poll(timedelta(milliseconds=100)))

    assert await read(4, tags="Aa") == [0, 3, 6, 9]  # "BB" has the same hash
    assert await read(2, sql="n > 9") == [10, 11]


async def test_members_divide_the_queues(server: Server) -> None:
    topic, group = new(), new("group")
    await fill(server, topic, range(8))
    async with asyncio.timeout(30), consumer(server, group) as one:
        await one.subscribe(topic)
        assert len(one.assignment) == 4
        await drain(one, 8)
        await one.commit()
        async with consumer(server, group) as two:
            await two.subscribe(topic)
            await reads(one, 2)
            await reads(two, 2)
            assert not one.assignment & two.assignment
            await fill(server, topic, range(8, 24))
            found: list[ReceivedMessage] = []
            while len({message.body for message in found}) < 16:
                found += await one.poll(timedelta(milliseconds=50)) + await two.poll(timedelta(milliseconds=50))
            assert set(numbers(found)) == set(range(8, 24))
        await reads(one, 4)
        await one.unsubscribe(topic)
        assert not one.assignment


async def test_broadcasting(server: Server, tmp_path: Path) -> None:
    topic, group = new(), new("group")
    await fill(server, topic, range(6))

    def listener(name: str) -> LitePullConsumer:
        return consumer(server, group, broadcasting=True, offset_folder=tmp_path, client_id=name)

    async with listener("one") as one, listener("two") as two:
        for member in (one, two):
            await member.subscribe(topic)
            assert len(member.assignment) == 4
            assert numbers(await drain(member, 6)) == list(range(6))
    async with listener("one") as again:
        await again.subscribe(topic)
        assert await again.poll(SHORT) == []
        assert sum([await again.committed(queue) or 0 for queue in again.assignment]) == 6


async def test_many_topics_at_once(server: Server) -> None:
    topics = [new() for _ in range(4)]
    for topic in topics:
        await fill(server, topic, range(4))
    async with consumer(server) as one:
        one.members_changed()
        await asyncio.gather(*[one.subscribe(topic) for topic in topics])
        assert len(one.assignment) == 16
        assert numbers(await drain(one, 16)) == sorted(list(range(4)) * 4)
        assert await one.poll(SHORT) == []
        loops = [task for task in asyncio.all_tasks() if "reading ahead" in task.get_name()]
        assert len(loops) == 16


async def test_stream_and_bounds(server: Server) -> None:
    topic = new()
    await fill(server, topic, range(30), queues=1)
    async with consumer(server, buffered=4, pull_batch=2) as one, asyncio.timeout(20):
        await one.subscribe(topic)
        found = []
        async for message in one.messages(max_messages=3):
            assert one.counters["held_messages"] <= 6
            found.append(int(message.body))
            if len(found) == 30:
                break
        assert found == list(range(30))


async def test_what_is_refused(server: Server) -> None:
    for wrong in (
        {"buffered": 0},
        {"pull_batch": 0},
        {"auto_commit_interval": timedelta(0)},
        {"start_from": "middle"},
        {"start_from": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"strategy": "MAGIC"},
    ):
        with pytest.raises(InvalidArgument):
            consumer(server, **wrong)
    closed = consumer(server)
    with pytest.raises(ClientClosed):
        await closed.poll()
    async with consumer(server) as one:
        with pytest.raises(TopicNotFound):
            await one.subscribe(new("absent"))
        with pytest.raises(InvalidArgument):
            await one.subscribe("a b")
        for bad in ({"wait": timedelta(seconds=-1)}, {"max_messages": 0}):
            with pytest.raises(InvalidArgument):
                await one.poll(**bad)  # type: ignore[arg-type]
        topic = new()
        await fill(server, topic, range(1))
        (queue, *_) = await one.queues(topic)
        with pytest.raises(InvalidArgument):
            one.pause(queue)
        with pytest.raises(InvalidArgument):
            await one.commit({queue: -1})
        with pytest.raises(InvalidArgument):
            await one.offset_for_time(queue, datetime(2026, 1, 1))  # noqa: DTZ001
        await one.subscribe(topic)
        with pytest.raises(ClientError):
            await one.assign([queue])
    with pytest.raises(ClientClosed):
        await one.poll()


async def test_a_broker_that_comes_back() -> None:
    async with LocalCluster() as cluster, asyncio.timeout(40):
        await cluster.create_topic("orders")
        server = Server("comet", cluster.namesrv)
        async with consumer(server, "g") as one:
            await one.subscribe("orders")
            await fill(server, "orders", range(1, 5))
            assert numbers(await drain(one, 4)) == [1, 2, 3, 4]
            waiting = asyncio.create_task(one.poll(timedelta(seconds=20)))
            await cluster.stop_broker()
            with pytest.raises(CometError):
                await one.commit()
            await cluster.start_broker()
            while True:
                try:
                    await fill(server, "orders", range(5, 6))
                    break
                except CometError:
                    await asyncio.sleep(0.1)
            found = await waiting
            assert numbers(found) == [5]
            await one.commit()
            assert sum([await one.committed(queue) or 0 for queue in one.assignment]) == 5
