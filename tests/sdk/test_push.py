"""Push consumption: everything once, again where it failed, and nothing lost by coming and going."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from tests.sdk.conftest import Server
from tests.sdk.push_kit import Heard, consuming, new, producing, send, until

from cometmq import Message, PushConsumer, ReceivedMessage, RetryLater
from cometmq.client.rebalance import ByCircle, ConsistentHash
from cometmq.errors import ClientClosed, InvalidArgument
from cometmq.wire import fastjson
from cometmq.wire.bodies.assignment import POP, RequestMode
from cometmq.wire.requests.consume import UpdateConsumerOffset
from cometmq.wire.requests.members import SetMessageRequestMode


async def test_everything_once_and_on_from_there(server: Server) -> None:
    topic, group = new(), new("group")
    async with producing(server, topic) as producer:
        await send(producer, topic, range(1000), tags="a")
        heard = Heard()
        async with consuming(server, group, topic, heard) as consumer:
            await until(lambda: len(heard.messages) >= 1000)
            assert len(consumer.queues) == 5  # with that of the retry topic
            assert consumer.counters["consumed"] == 1000
            assert consumer.counters["held_messages"] == 0
        assert heard.counts == dict.fromkeys(range(1000), 1)
        assert {message.topic for message in heard.messages} == {topic}
        await send(producer, topic, range(1000, 1100))
        again = Heard()
        async with consuming(server, group, topic, again):
            await until(lambda: len(again.messages) >= 100)
        assert again.counts == dict.fromkeys(range(1000, 1100), 1)


async def test_two_members_share_and_one_leaves(server: Server) -> None:
    topic, group = new(), new("group")
    async with producing(server, topic, 6) as producer:
        one, two = Heard(), Heard()
        async with consuming(server, group, topic, one, strategy=ByCircle()) as first:
            async with consuming(server, group, topic, two, strategy="AVG_BY_CIRCLE") as second:
                await until(lambda: len(first.queues) + len(second.queues) == 7 and bool(second.queues))
                await send(producer, topic, range(300))
                await until(lambda: len(one.messages) + len(two.messages) >= 300)
                assert len(two.messages) >= 100
            await until(lambda: len(first.queues) == 7)
            await send(producer, topic, range(300, 400))
            await until(lambda: set(range(300, 400)) <= set(one.numbers))
        assert set(one.numbers) | set(two.numbers) == set(range(400))


async def test_tags_and_sql(server: Server) -> None:
    topic = new()
    # Java's hash is the same for the first two, so the broker lets both through.
    async with producing(server, topic, 2) as producer:
        for number, tag in enumerate(["Aa", "BB", "paid"]):
            await producer.send(Message(topic, b"%d" % number, tags=tag, properties={"price": str(number * 10)}))
        by_tag, by_sql = Heard(), Heard()
        async with (
            consuming(server, new("group"), topic, by_tag, tags="Aa || paid"),
            consuming(server, new("group"), topic, by_sql, sql="price >= 10"),
        ):
            await until(lambda: len(by_tag.messages) >= 2 and len(by_sql.messages) >= 2)
            await asyncio.sleep(0.1)
        assert sorted(by_tag.numbers) == [0, 2]
        assert sorted(by_sql.numbers) == [1, 2]


async def test_retries_and_dead_letters(server: Server) -> None:
    topic, group = new(), new("group")
    tried: list[tuple[int, int, str]] = []

    async def hear(message: ReceivedMessage) -> None:
        number = int(message.body)
        tried.append((number, message.reconsume_times, message.topic))
        if number == 1 and message.reconsume_times == 0:
            raise KeyError("not yet")
        if number == 2:
            raise ValueError("never")
        if number == 3:
            raise RetryLater("a dead letter at once", delay_level=-1)

    async with producing(server, topic, 1) as producer:
        await send(producer, topic, range(5))
        async with consuming(server, group, topic, hear, max_reconsume_times=1, retry_delay_level=1) as consumer:
            await until(lambda: len(tried) >= 7)
            dead = await server.read(f"%DLQ%{group}", 2)
            assert consumer.counters["failed"] == 4
    assert sorted(tried) == [(n, 0, topic) for n in (0,)] + [(1, 0, topic), (1, 1, topic), (2, 0, topic), (2, 1, topic),
                                                             (3, 0, topic), (4, 0, topic)]  # fmt: skip
    assert sorted(int(message.body) for message in dead) == [2, 3]


async def test_a_batch_that_fails_in_part(server: Server) -> None:
    topic = new()
    calls: list[list[tuple[int, int]]] = []

    def hear(messages: Sequence[ReceivedMessage]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        calls.append([(int(message.body), message.reconsume_times) for message in messages])
        bad = [message for message in messages if int(message.body) == 5 and not message.reconsume_times]
        if bad:
            raise RetryLater("only this one", only=bad)

    async with producing(server, topic, 1) as producer:
        await send(producer, topic, range(20))
        async with consuming(server, new("group"), topic, hear, batch=8, retry_delay_level=1):
            await until(lambda: sum(map(len, calls)) >= 21)
    assert sorted(n for call in calls for n, _ in call) == sorted([*range(20), 5])
    assert max(map(len, calls)) == 8
    assert [(5, 1)] in calls


async def test_orderly_while_members_come_and_go(server: Server) -> None:
    topic, group = new(), new("group")
    heard: list[tuple[int, int]] = []
    running: set[int] = set()
    count, keys = 240, 4

    async def hear(message: ReceivedMessage) -> None:
        queue = message.queue_id
        assert queue not in running, "two at once"
        running.add(queue)
        await asyncio.sleep(0.002)
        running.discard(queue)
        heard.append((queue, message.queue_offset))

    async with producing(server, topic, keys) as producer, consuming(server, group, topic, hear, orderly=True):
        sending = asyncio.gather(*[send(producer, topic, range(count), key=f"key-{number}") for number in range(keys)])
        async with consuming(server, group, topic, hear, orderly=True) as joined:
            await until(lambda: len(joined.queues) >= 2)
            await until(lambda: len(heard) >= count)
        await sending
        await until(lambda: len(heard) >= count * keys)
    for queue in range(keys):
        mine = [offset for queue_id, offset in heard if queue_id == queue]
        assert mine == list(range(len(mine))), "each message once, in the order in which it was stored"


async def test_orderly_tries_again_in_place(server: Server) -> None:
    topic, group = new(), new("group")
    heard: list[tuple[int, int]] = []

    def hear(message: ReceivedMessage) -> None:
        number = int(message.body)
        heard.append((number, message.reconsume_times))
        if number == 2 and message.reconsume_times < 2:
            raise RuntimeError("again, and nothing before it")
        if number == 4:
            raise RuntimeError("never")

    async with producing(server, topic, 1) as producer:
        await send(producer, topic, range(6), key="k")
        pause = timedelta(milliseconds=20)
        async with consuming(server, group, topic, hear, orderly=True, suspend_queue=pause, max_reconsume_times=2):
            await until(lambda: (5, 0) in heard)
            (dead,) = await server.read(f"%DLQ%{group}")
    assert heard == [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (3, 0), (4, 0), (4, 1), (4, 2), (5, 0)]
    assert dead.body == b"4"


async def test_broadcasting_goes_to_all_and_on_from_a_file(server: Server, tmp_path: object) -> None:
    topic, group = new(), new("group")
    ways = {"broadcasting": True, "offset_folder": tmp_path}
    async with producing(server, topic) as producer:
        one, two, again = Heard(), Heard(), Heard()
        async with (
            consuming(server, group, topic, one, client_id=new("one"), **ways),
            consuming(server, group, topic, two, client_id=f"{topic}-two", **ways) as second,
        ):
            assert len(second.queues) == 4
            await send(producer, topic, range(100))
            await until(lambda: len(one.messages) >= 100 and len(two.messages) >= 100)
        assert one.counts == two.counts == dict.fromkeys(range(100), 1)
        await send(producer, topic, range(100, 120))
        async with consuming(server, group, topic, again, client_id=f"{topic}-two", **ways):
            await until(lambda: len(again.messages) >= 20)
        assert again.counts == dict.fromkeys(range(100, 120), 1)


async def test_a_slow_listener_does_not_gather_messages(server: Server) -> None:
    topic = new()
    gate = asyncio.Event()
    heard: list[int] = []
    most = 0

    async def hear(message: ReceivedMessage) -> None:
        await gate.wait()
        heard.append(int(message.body))

    async with producing(server, topic, 2) as producer:
        await send(producer, topic, range(2000))
        async with consuming(server, new("group"), topic, hear, queue_messages=100, concurrency=5) as consumer:
            await until(lambda: consumer.counters["held_messages"] >= 200)
            await asyncio.sleep(0.2)
            most = consumer.counters["held_messages"]
            gate.set()
            await until(lambda: len(heard) >= 2000)
    assert most <= 2 * (100 + 32)
    assert sorted(heard) == list(range(2000))


async def test_a_stop_in_the_middle_loses_nothing(server: Server) -> None:
    topic, group = new(), new("group")
    done: list[int] = []
    cut: list[int] = []

    async def hear(message: ReceivedMessage) -> None:
        try:
            await asyncio.sleep(0.01 if int(message.body) % 50 else 60)
        except asyncio.CancelledError:
            cut.append(int(message.body))
            raise
        done.append(int(message.body))

    async with producing(server, topic) as producer:
        await send(producer, topic, range(300))
        for _ in range(3):
            started = time.monotonic()
            async with consuming(server, group, topic, hear, concurrency=8, stop_timeout_s=0.3):
                before = len(done)
                await until(lambda before=before: len(done) >= before + 20)  # type: ignore[misc]
            assert time.monotonic() - started < 8
        rest = Heard()
        async with consuming(server, group, topic, rest):
            await until(lambda: set(done) | set(rest.numbers) >= set(range(300)))
    assert set(cut) <= set(rest.numbers)


@pytest.mark.parametrize("in_thread", [False, True], ids=["task", "thread"])
async def test_a_listener_that_takes_too_long(server: Server, in_thread: bool) -> None:
    topic = new()
    tried: list[tuple[int, int]] = []

    def is_slow(message: ReceivedMessage) -> bool:
        tried.append((int(message.body), message.reconsume_times))
        return message.body == b"0" and not message.reconsume_times

    async def hear_in_task(message: ReceivedMessage) -> None:
        if is_slow(message):
            await asyncio.sleep(60)

    def hear_in_thread(message: ReceivedMessage) -> None:
        if is_slow(message):
            time.sleep(0.9)  # its worker waits for it, or the others would seem to take too long

    hear = hear_in_thread if in_thread else hear_in_task

    async with producing(server, topic, 1) as producer:
        await send(producer, topic, range(3))
        timeout = timedelta(seconds=0.3)
        async with consuming(
            server, new("group"), topic, hear, consume_timeout=timeout, retry_delay_level=1, concurrency=1
        ) as consumer:
            await until(lambda: len(tried) >= 4)
            assert consumer.counters["timed_out"] == 1
    assert (sorted(tried[:3]), tried[3:]) == ([(0, 0), (1, 0), (2, 0)], [(0, 1)])


async def test_a_topic_of_batches(server: Server) -> None:
    topic, heard = new(), Heard()
    async with producing(server, new()) as producer:
        await producer.create_topic(topic, queues=1, attributes={"queue.type": "BatchCQ"})
        for start in range(0, 60, 20):
            await producer.send_batch([Message(topic, b"%d" % number, tags="t") for number in range(start, start + 20)])
        group = new("group")
        async with consuming(server, group, topic, heard) as consumer:
            await until(lambda: len(heard.messages) >= 60)
            await until(lambda: sum(consumer.consumed_offsets(topic).values()) == 60)
        assert heard.numbers == list(range(60))
        assert [message.queue_offset for message in heard.messages] == list(range(60))


async def test_suspend_and_resume(server: Server) -> None:
    topic, heard = new(), Heard()
    async with producing(server, topic) as producer, consuming(server, new("group"), topic, heard) as consumer:
        await send(producer, topic, range(10))
        await until(lambda: len(heard.messages) == 10)
        consumer.suspend()
        await send(producer, topic, range(10, 20))
        await asyncio.sleep(0.3)
        assert len(heard.messages) == 10
        consumer.resume()
        await until(lambda: len(heard.messages) == 20)


async def test_where_a_new_group_begins(server: Server) -> None:
    topic = new()
    async with producing(server, topic, 2) as producer:
        await send(producer, topic, range(10))
        await asyncio.sleep(0.05)
        then = datetime.now(UTC)
        await asyncio.sleep(0.05)
        await send(producer, topic, range(10, 20))
        heard = Heard()
        consumer = PushConsumer(new("group"), namesrv=server.namesrv, start_from=then).subscribe(topic, heard)
        async with consumer:
            await until(lambda: len(heard.messages) >= 10)
        assert sorted(heard.numbers) == list(range(10, 20))


async def test_an_offset_that_is_not_there(server: Server) -> None:
    topic, group, heard = new(), new("group"), Heard()
    async with producing(server, topic, 1) as producer:
        await send(producer, topic, range(5))
        (queue,) = await producer.queues(topic)
        async with consuming(server, group, topic, heard):  # makes the group
            await until(lambda: len(heard.messages) == 5)
        await producer.instance.call(str(queue.broker_name), UpdateConsumerOffset(topic, group, 0, 10_000))
        async with consuming(server, group, topic, heard) as consumer:
            await until(lambda: consumer.consumed_offsets(topic).get(queue, 10_000) < 10_000)
            await send(producer, topic, range(5, 8))
            await until(lambda: {5, 6, 7} <= set(heard.numbers))


@pytest.mark.parametrize("strategy", ["AVG", ConsistentHash()], ids=["by the broker", "by hash"])
async def test_the_broker_divides(server: Server, strategy: object) -> None:
    topic, group, heard = new(), new("group"), Heard()
    by_server = strategy == "AVG"
    async with (
        producing(server, topic) as producer,
        consuming(server, group, topic, heard, server_assignment=by_server, strategy=strategy) as one,
        consuming(server, group, topic, heard, server_assignment=by_server, strategy=strategy) as two,
    ):
        await until(lambda: len(one.queues) + len(two.queues) == 5 and not set(one.queues) & set(two.queues))
        await send(producer, topic, range(100))
        await until(lambda: len(heard.messages) >= 100)
    assert heard.counts == dict.fromkeys(range(100), 1)


async def test_popping_where_the_broker_says_so(server: Server) -> None:
    topic, group = new(), new("group")
    heard = Heard()

    async def hear(message: ReceivedMessage) -> None:
        await heard(message)
        if message.body == b"7":
            raise ValueError("a dead letter, as there is no second attempt")

    ways: dict[str, object] = {"server_assignment": True, "max_reconsume_times": 0}
    async with producing(server, topic) as producer:
        async with consuming(server, group, topic, hear, **ways):  # makes the group
            pass
        mode = fastjson.dumps(RequestMode(topic, group, POP).to_json())
        await producer.instance.call("broker-a", SetMessageRequestMode(), mode)
        async with consuming(server, group, topic, hear, **ways) as one, consuming(server, group, topic, hear, **ways):
            await until(lambda: any(queue.queue_id == -1 for queue in one.queues))
            await send(producer, topic, range(200), tags="t")
            await until(lambda: len(heard.messages) >= 200)
            (dead,) = await server.read(f"%DLQ%{group}")
            await until(lambda: one.counters["held_messages"] == 0)
            assert one.running_info()["mqPopTable"]
        assert heard.counts == dict.fromkeys(range(200), 1)
        assert dead.body == b"7"
        await send(producer, topic, range(200, 210))
        async with consuming(server, group, topic, hear, **ways):
            await until(lambda: len(heard.messages) >= 210)
        assert heard.counts == dict.fromkeys(range(210), 1)


async def test_topics_come_and_go(server: Server) -> None:
    topic, later, heard = new(), new("later"), Heard()
    async with producing(server, topic, 1) as producer, consuming(server, new("group"), later, heard) as consumer:
        assert consumer.queues[1:] == []
        await send(producer, topic, range(3))
        consumer.subscribe(topic, heard)
        await until(lambda: len(heard.messages) == 3)
        consumer.unsubscribe(topic)
        await until(lambda: all(queue.topic != topic for queue in consumer.queues))
        await producer.create_topic(later, queues=1)
        await producer.send(Message(later, b"7"))
        await until(lambda: 7 in heard.numbers)


async def test_no_task_stays(server: Server) -> None:
    before = asyncio.all_tasks()
    topic, heard = new(), Heard()
    async with producing(server, topic) as producer:
        await send(producer, topic, range(10))
        consumer = PushConsumer(new("group"), namesrv=server.namesrv, start_from="first").subscribe(topic, heard)
        running = asyncio.create_task(consumer.run())
        await until(lambda: len(heard.messages) == 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await consumer.close()
        with pytest.raises(ClientClosed):
            consumer.suspend()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"queue_messages": 0},
        {"max_reconsume_times": -1},
        {"start_from": "middle"},
        {"start_from": datetime(2024, 1, 1)},  # noqa: DTZ001
        {"strategy": "FAIR"},
        {"orderly": True, "server_assignment": True},
        {"consume_timeout": timedelta(0)},
        {"namesrv": "no address"},
    ],
    ids=str,
)
def test_bad_options(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        PushConsumer("group", **{"namesrv": "127.0.0.1:9876", **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"topic": ""}, {"topic": "a b"}, {"tags": "||"}, {"tags": "a|b"}, {"tags": "a |||"}, {"sql": " "},
     {"tags": "a", "sql": "b"}, {"batch": 0}, {"listener": 5}],
    ids=str,
)  # fmt: skip
def test_bad_subscriptions(wrong: dict[str, object]) -> None:
    consumer = PushConsumer("group", namesrv="127.0.0.1:9876")
    with pytest.raises(InvalidArgument):
        consumer.subscribe(**{"topic": "t", "listener": print, **wrong})  # type: ignore[arg-type]


async def test_nothing_to_hear() -> None:
    with pytest.raises(InvalidArgument, match="subscribe"):
        await PushConsumer("group", namesrv="127.0.0.1:9876").start()
    with pytest.raises(InvalidArgument):
        PushConsumer("bad group", namesrv="127.0.0.1:9876")
