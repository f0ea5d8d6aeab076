"""Receiving one by one: every message once if acknowledged, again if not."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.sdk.conftest import Server

from cometmq import Message, Producer, ReceivedMessage, SimpleConsumer
from cometmq.errors import (
    ClientClosed,
    ClientError,
    InvalidArgument,
    PeerRefused,
    PeerUnreachable,
    SendFailed,
    ServerTooOld,
    TopicNotFound,
)
from cometmq.net.routes import Routes
from cometmq.testing.local_cluster import LocalCluster
from cometmq.wire.requests.pop import BatchAckMessage, PopMessage
from cometmq.wire.schema import Header

SHORT = timedelta(seconds=1)
LONG = timedelta(seconds=60)


def new(kind: str = "topic") -> str:
    return f"{kind}-{uuid.uuid4().hex}"


async def fill(server: Server, topic: str, count: int, tags: tuple[str | None, ...] = (None,)) -> None:
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic, queues=3)
        async with producer.pipeline() as pipeline:
            for number in range(count):
                tag = tags[number % len(tags)]
                await pipeline.send(Message(topic, b"%d" % number, tags=tag, properties={"n": str(number)}))


def consumer(server: Server, group: str | None = None, **options: object) -> SimpleConsumer:
    return SimpleConsumer(group or new("group"), namesrv=server.namesrv, start_from="first", **options)


def assert_once(server: Server, found: list[ReceivedMessage], count: int) -> None:
    """What two consumers of a new group found is each message once."""
    times = Counter((message.queue_id, message.queue_offset) for message in found)
    assert len(times) == count
    again: dict[int, set[int]] = {}
    for (queue, offset), came in times.items():
        if came > 1:
            again.setdefault(queue, set()).add(offset)
    if server.kind == "java":
        # The original makes a group's table of offsets without a lock (ConsumerOffsetManager.commitOffset). Of two
        # first pops each may make one, and the later put drops the other, with all that was finished in it meanwhile:
        # such a queue is popped from its beginning once more. Never that of the put, and never a third time.
        assert max(times.values()) <= 2 and len(again) < 3, times
        assert all(offsets == set(range(len(offsets))) for offsets in again.values()), again
    else:
        assert not again


async def test_every_message_once(server: Server) -> None:
    topic, group = new(), new("group")
    await fill(server, topic, 100)
    async with consumer(server, group) as first, consumer(server, group) as second:
        found: list[ReceivedMessage] = []

        async def drain(one: SimpleConsumer) -> None:
            async for message in one.receive(topic, invisible=LONG, wait=SHORT):
                assert (message.topic, message.reconsume_times) == (topic, 0)
                found.append(message)
                await message.ack()
                await message.ack()  # twice is once

        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(drain(first))
            tasks.create_task(drain(second))
        assert {int(message.body) for message in found} == set(range(100))
        assert_once(server, found, 100)
        assert first.counters["acknowledged"] + second.counters["acknowledged"] == len(found)
        assert first.in_flight == second.in_flight == 0
    async with consumer(server, group) as third:
        assert await third.pop(topic, wait=timedelta(0)) == []
    assert len(asyncio.all_tasks()) == 1


async def test_what_is_not_acknowledged_comes_again(server: Server) -> None:
    topic, group = new(), new("group")
    await fill(server, topic, 6)
    async with consumer(server, group) as one:
        found: list[ReceivedMessage] = []
        async with asyncio.timeout(30):
            while len(found) < 6:
                found += await one.pop(topic, invisible=SHORT, wait=SHORT)
            by_number = {int(message.body): message for message in found}
            await one.ack_all(by_number[number] for number in (0, 1, 2))
            await by_number[3].ack()
            await by_number[4].change_invisible(LONG)
            again = await anext(one.receive(topic, invisible=SHORT))
            assert (again.body, again.topic, again.reconsume_times) == (b"5", topic, 1)
            await again.ack()
            await by_number[4].ack()  # with the receipt that the change gave
        assert await one.pop(topic, wait=timedelta(seconds=1.5)) == []


async def test_tags_and_sql(server: Server) -> None:
    topic = new()
    # "Aa" and "BB" have the same Java hash, which is all that brokers compare.
    await fill(server, topic, 12, ("Aa", "BB", "c"))

    async def numbers(**wanted: str | list[str]) -> list[int]:
        async with consumer(server) as one, asyncio.timeout(20):
            return sorted(
                [int(message.body) async for message in one.receive(topic, wait=timedelta(seconds=0.3), **wanted)]  # type: ignore[arg-type]
            )

    assert await numbers(tags="Aa") == [0, 3, 6, 9]
    assert await numbers(tags=["Aa", "c"]) == [0, 2, 3, 5, 6, 8, 9, 11]
    assert await numbers(tags="Aa || c") == [0, 2, 3, 5, 6, 8, 9, 11]
    assert await numbers(sql="n > 9") == [10, 11]


async def test_long_poll_and_cancellation(server: Server) -> None:
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer, consumer(server) as one:
        await producer.create_topic(topic, queues=2)
        waiting = asyncio.create_task(one.pop(topic, invisible=LONG, wait=timedelta(seconds=20)))
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await producer.send(Message(topic, b"1"))  # goes to the pop that nobody waits for any more
        async with asyncio.timeout(5):
            (message,) = await one.pop(topic, invisible=LONG, wait=timedelta(seconds=20))
            await message.ack()
            messages = one.receive(topic, invisible=LONG)
            coming = asyncio.ensure_future(anext(messages))
            await asyncio.sleep(0.1)
            await producer.send(Message(topic, b"2"))
            assert (await coming).body == b"2"
            await messages.aclose()


async def test_leaving_early_loses_nothing(comet: Server) -> None:
    topic, group = new(), new("group")
    await fill(comet, topic, 30)
    async with consumer(comet, group) as one:
        seen = set()
        async with asyncio.timeout(20):
            for _ in range(10):
                async for message in one.receive(topic, invisible=LONG):
                    seen.add(message.body)
                    await message.ack()
                    break
        assert len(seen) == 10
    async with consumer(comet, group) as other, asyncio.timeout(30):  # what the first had left is handed back
        while len(seen) < 30:
            for message in await other.pop(topic, invisible=LONG):
                assert message.body not in seen
                seen.add(message.body)
                await message.ack()


async def test_a_pop_that_outlives_its_consumer_keeps_nothing(server: Server) -> None:
    topic, group = new(), new("group")
    async with Producer("sdk", namesrv=server.namesrv) as producer, asyncio.timeout(20):  # keeps the connection open
        await producer.create_topic(topic, queues=1)
        async with consumer(server, group) as one:
            waiting = asyncio.create_task(one.pop(topic, invisible=LONG))
            await asyncio.sleep(0.3)
            waiting.cancel()
        await producer.send(Message(topic, b"1"))
        async with consumer(server, group) as other:
            (message,) = await other.pop(topic, invisible=LONG)
            await message.ack()


async def test_in_flight_is_bounded(comet: Server) -> None:
    topic = new()
    await fill(comet, topic, 20)
    async with consumer(comet, in_flight=5) as one, asyncio.timeout(30):
        stream = one.receive(topic, invisible=SHORT)
        held = [await anext(stream) for _ in range(5)]
        assert one.in_flight == 5
        assert await one.pop(topic, wait=timedelta(milliseconds=100)) == []
        waiting = asyncio.ensure_future(anext(stream))
        await held[0].ack()
        held.append(await waiting)
        assert one.in_flight == 5
        await anext(stream)  # comes when the others' time is over
        assert one.in_flight <= 5


async def test_in_order(server: Server) -> None:
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic, queues=1)
        for number in range(4):
            await producer.send(Message(topic, b"%d" % number, sharding_key="k"))
    async with consumer(server) as one, asyncio.timeout(30):
        short = timedelta(seconds=1)
        (first,) = await one.pop(topic, max_messages=1, invisible=short, in_order=True)
        assert (first.body, first.reconsume_times) == (b"0", 0)
        assert await one.pop(topic, max_messages=1, in_order=True, wait=timedelta(0)) == []  # blocked by the first
        again = await one.pop(topic, max_messages=2, invisible=LONG, in_order=True)
        assert [(message.body, message.reconsume_times) for message in again] == [(b"0", 1), (b"1", 0)]
        await one.ack_all(again)
        rest = await one.pop(topic, invisible=LONG, in_order=True)
        assert [message.body for message in rest] == [b"2", b"3"]


async def test_what_is_refused(server: Server) -> None:
    for wrong in ({"in_flight": 0}, {"start_from": "middle"}, {"group": "a b"}, {"namesrv": "nowhere"}):
        with pytest.raises(InvalidArgument):
            SimpleConsumer(**{"group": "g", "namesrv": server.namesrv, **wrong})  # type: ignore[arg-type]
    closed = consumer(server)
    with pytest.raises(ClientClosed):
        await closed.pop("t")
    topic = new()
    await fill(server, topic, 1)
    async with consumer(server) as one:
        for bad in (
            {"topic": "a b"},
            {"tags": " || "},
            {"tags": ["a|b"]},
            {"tags": []},
            {"sql": "price >"},
            {"sql": "a = 1", "tags": "x"},
            {"max_messages": 0},
            {"invisible": timedelta(0)},
            {"wait": timedelta(seconds=-1)},
        ):
            with pytest.raises(InvalidArgument):
                await one.pop(**{"topic": topic, **bad})  # type: ignore[arg-type]
        with pytest.raises(TopicNotFound):
            await one.pop(new("absent"))
        (message,) = await one.pop(topic, invisible=SHORT)
        parcel = message.deliverer.parcel  # type: ignore[union-attr]
        parcel.handle = parcel.handle._replace(queue_id=99)
        with pytest.raises(PeerRefused):
            await message.ack()
        message.deliverer = None
        with pytest.raises(ClientError):
            await one.ack(message)
    with pytest.raises(ClientClosed):
        await one.pop(topic)


async def test_several_brokers() -> None:
    async with LocalCluster(brokers=3) as cluster, asyncio.timeout(20):
        await cluster.create_topic("orders", 2)
        async with (
            Producer("p", namesrv=cluster.namesrv) as producer,
            SimpleConsumer("g", namesrv=cluster.namesrv, start_from="first") as one,
        ):
            waiting = asyncio.ensure_future(anext(one.receive("orders")))
            for number in range(30):
                await producer.send(Message("orders", b"%d" % number))
            found = {(await waiting).body}
            async for message in one.receive("orders"):
                found.add(message.body)
                await message.ack()
                if len(found) == 30:
                    break
            await cluster.stop_broker(1)
            await producer.send(Message("orders", b"more"))
            assert (await anext(one.receive("orders"))).body == b"more"
            assert len(one._open()._tasks) < 12


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Header]], None]:
    """Let brokers that start from now on not know a request."""

    def forget(request: type[Header]) -> None:
        add = Routes.add

        def add_others(self: Routes, *services: object) -> None:
            add(self, *services)
            self._table.pop(request.code, None)

        monkeypatch.setattr(Routes, "add", add_others)

    return forget


async def test_a_broker_that_knows_no_pop(older: Callable[[type[Header]], None]) -> None:
    older(PopMessage)
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        async with SimpleConsumer("g", namesrv=cluster.namesrv) as one:
            with pytest.raises(ServerTooOld, match="since 5"):
                await one.pop("orders")
            with pytest.raises(ServerTooOld):
                await anext(one.receive("orders"))


async def test_a_broker_that_knows_no_batches(older: Callable[[type[Header]], None]) -> None:
    older(BatchAckMessage)
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        async with (
            Producer("p", namesrv=cluster.namesrv) as producer,
            SimpleConsumer("g", namesrv=cluster.namesrv, start_from="first") as one,
        ):
            await producer.send_batch([Message("orders", b"%d" % number) for number in range(5)])
            found = await one.pop("orders", invisible=SHORT)
            await one.ack_all(found)
            assert len(found) == one.counters["acknowledged"] == 5


async def test_a_broker_that_comes_back() -> None:
    """Receives go on where they were, without a word from the program."""
    async with LocalCluster() as cluster, asyncio.timeout(30):
        await cluster.create_topic("orders")
        async with (
            Producer("p", namesrv=cluster.namesrv, retries=5) as producer,
            SimpleConsumer("g", namesrv=cluster.namesrv, start_from="first") as one,
        ):
            stream = one.receive("orders")
            for number in range(2):
                coming = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0.1)
                await cluster.stop_broker()
                await asyncio.sleep(0.3)
                assert not coming.done()
                with pytest.raises(PeerUnreachable):
                    await one.pop("orders", wait=timedelta(seconds=0.2))
                await cluster.start_broker()
                while True:
                    try:
                        await producer.send(Message("orders", b"%d" % number))
                        break
                    except SendFailed:
                        await asyncio.sleep(0.1)
                message = await coming
                await message.ack()
                assert message.body == b"%d" % number


async def test_waiting_for_nothing_leaves_nothing() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        async with SimpleConsumer("g", namesrv=cluster.namesrv) as one:
            await one.pop("orders", wait=timedelta(milliseconds=1))
            tasks, objects = len(asyncio.all_tasks()), len(gc.get_objects())
            for _ in range(300):
                assert await one.pop("orders", wait=timedelta(milliseconds=1)) == []
            gc.collect()
            assert len(asyncio.all_tasks()) <= tasks + 1
            assert len(gc.get_objects()) < objects + 600


async def test_a_topic_of_batches(server: Server) -> None:
    """A batch is one record there: it is acknowledged with its last message, and else comes again as a whole.

    The original does not bring it again: it refuses to store it in a retry topic.
    """
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer, consumer(server) as one, asyncio.timeout(40):
        await producer.create_topic(topic, queues=1, attributes={"queue.type": "BatchCQ"})
        for start in (0, 10):
            await producer.send_batch([Message(topic, b"%d" % number) for number in range(start, start + 10)])
        found: list[ReceivedMessage] = []
        while len(found) < 20:
            found += await one.pop(topic, max_messages=7, invisible=SHORT)
        assert [int(message.body) for message in found] == list(range(20))
        assert [message.queue_offset for message in found] == list(range(20))
        await one.ack_all(found[:10])
        if server.kind == "java":
            await one.ack_all(found[10:])
            return
        await one.ack_all(found[10:19])
        again: list[ReceivedMessage] = []
        while len(again) < 10:
            again += await one.pop(topic, invisible=LONG)
        assert sorted(int(message.body) for message in again) == list(range(10, 20))
        assert all(message.reconsume_times == 1 for message in again)
        await one.ack_all(again)
        assert one.counters["acknowledged"] == 29
