"""Brokers and name servers that go and come back, connections that are cut, programs that are closed or forked."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import pytest
from tests.sdk.conftest import Server

from cometmq import Message, Producer
from cometmq.client.forking import GENERATION
from cometmq.errors import (
    BrokerUnreachable,
    ClientClosed,
    ClientForked,
    InvalidArgument,
    SendFailed,
    SendsFailed,
    TopicNotFound,
)
from cometmq.net.server import Server as Listening
from cometmq.net.server import bind
from cometmq.testing.local_cluster import LocalCluster


async def test_another_broker_takes_over() -> None:
    async with LocalCluster(brokers=2) as cluster:
        await cluster.create_topic("orders")
        async with Producer("sdk", namesrv=cluster.namesrv, retries=2) as producer:
            taken = {(await producer.send(Message("orders", b"1"))).broker_name for _ in range(16)}
            assert taken == {"broker-a", "broker-b"}
            await cluster.stop_broker(0)
            for _ in range(20):
                assert (await producer.send(Message("orders", b"2"))).broker_name == "broker-b"
            assert producer.counters["given_up"] == 0


async def test_sends_under_way_move_to_another_broker() -> None:
    async with LocalCluster(brokers=2) as cluster:
        await cluster.create_topic("orders")
        async with Producer("sdk", namesrv=cluster.namesrv, retries=3, send_timeout_ms=10_000) as producer:
            async with producer.pipeline(in_flight=64) as pipeline:
                for number in range(600):
                    if number == 300:
                        await cluster.stop_broker(0)
                    await pipeline.send(Message("orders", b"%d" % number))
            assert pipeline.sent == 600


async def test_connections_are_cut_and_nothing_acknowledged_is_lost() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        async with Producer("sdk", namesrv=cluster.namesrv, retries=20, send_timeout_ms=20_000) as producer:
            async with producer.pipeline(in_flight=100) as pipeline:
                for number in range(2000):
                    await pipeline.send(Message("orders", b"%d" % number))
                    if number % 211 == 210:
                        channel = await producer.instance.channel("broker-a")
                        channel.close("cut by the test")
            assert pipeline.sent == 2000
            assert producer.counters["retried"] > 0
            assert producer.counters["in_flight"] == 0
        stored = await Server("comet", cluster.namesrv).read("orders", 2000)
        ids = {message.message_id for message in stored}
        assert ids == {receipt.message_id for receipt in pipeline.receipts}  # some twice, perhaps, and none missing


async def test_a_broker_that_comes_back() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        async with Producer("sdk", namesrv=cluster.namesrv, send_timeout_ms=500, retries=1) as producer:
            await producer.send(Message("orders", b"1"))
            await cluster.stop_broker()
            with pytest.raises((SendFailed, TopicNotFound)):
                await producer.send(Message("orders", b"2"))
            await cluster.start_broker()
            assert (await producer.send(Message("orders", b"3"), timeout_ms=10_000)).broker_name == "broker-a"


async def test_a_lost_name_server_stops_nobody() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        async with Producer("sdk", namesrv=cluster.namesrv, route_interval_s=0.05) as producer:
            await producer.send(Message("orders", b"1"))
            await cluster.stop_name_server()
            await asyncio.sleep(0.2)  # a few refreshes fail
            await producer.send(Message("orders", b"2"))
            await cluster.start_name_server()  # it knows no topic yet
            await asyncio.sleep(0.2)
            await producer.send(Message("orders", b"3"))


async def test_a_broker_that_never_answers_costs_only_the_time_given() -> None:
    silent = Listening(lambda channel, command: None)
    sock = bind("127.0.0.1", 0)
    await silent.listen(sock)
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        async with Producer("sdk", namesrv=cluster.namesrv, retries=0) as producer:
            await producer.queues("orders")
            producer.instance.routes.brokers["broker-a"][0] = f"127.0.0.1:{sock.getsockname()[1]}"
            begun = asyncio.get_running_loop().time()
            with pytest.raises(SendFailed, match="may have stored"):
                await producer.send(Message("orders", b"1"), timeout_ms=300)
            assert asyncio.get_running_loop().time() - begun < 2
            assert producer.counters["in_flight"] == 0
    await silent.close()


async def test_what_failed_of_many_is_told_as_messages() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        messages = [Message("orders", b"%d" % number) for number in range(3)]
        packed = Message("orders", b"x" * 10_000)
        async with Producer("sdk", namesrv=cluster.namesrv, retries=0) as producer:
            sent = await producer.send(messages[0])
            await cluster.stop_broker()
            with pytest.raises(SendsFailed, match="4 of 4 messages were not sent") as of_pipeline:
                async with producer.pipeline() as pipeline:
                    for message in (*messages, packed):
                        await pipeline.send(message)
            with pytest.raises(SendsFailed, match="3 of 3 messages were not sent") as of_batch:
                await producer.send_batch(messages, queue=sent.queue)
    assert {id(message) for message, _ in of_pipeline.value.failures} == {id(one) for one in (*messages, packed)}
    assert [message for message, _ in of_batch.value.failures] == messages
    assert of_pipeline.value.sent == of_batch.value.sent == 0
    for _, error in (*of_pipeline.value.failures, *of_batch.value.failures):
        assert isinstance(error, SendFailed)


async def test_go_away_is_followed() -> None:
    async with LocalCluster({"enableShutdownGracefully": "true", "shutdownWaitTimeSeconds": "1"}, brokers=2) as cluster:
        await cluster.create_topic("orders")
        async with Producer("sdk", namesrv=cluster.namesrv, retries=2) as producer:
            for _ in range(8):
                await producer.send(Message("orders", b"1"))
            stopping = asyncio.create_task(cluster.stop_broker(0))
            while not stopping.done():
                await producer.send(Message("orders", b"2"))
                await asyncio.sleep(0.01)
            assert producer.counters["given_up"] == 0


async def test_an_address_that_cannot_be_reached() -> None:
    async with LocalCluster() as cluster:
        await cluster.create_topic("orders")
        async with Producer("sdk", namesrv=cluster.namesrv, retries=0) as producer:
            await producer.queues("orders")
            producer.instance.routes.brokers["broker-a"][0] = "127.0.0.1:1"
            with pytest.raises(SendFailed, match="set brokerIP1"):
                await producer.send(Message("orders", b"1"))
            with pytest.raises(BrokerUnreachable):
                await producer.send_oneway(Message("orders", b"1"))
    async with (
        LocalCluster({"brokerIP1": "127.0.0.2"}) as cluster,
        Producer("sdk", namesrv=cluster.namesrv, connect_timeout_ms=500) as producer,
    ):
        with pytest.raises(BrokerUnreachable, match="set brokerIP1"):
            await producer.create_topic("orders")


async def test_topics_are_not_always_created() -> None:
    async with (
        LocalCluster({"autoCreateTopicEnable": "false"}) as cluster,
        Producer("sdk", namesrv=cluster.namesrv) as producer,
    ):
        with pytest.raises(TopicNotFound, match="autoCreateTopicEnable"):
            await producer.send(Message("absent", b"1"))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_nothing_is_left_behind() -> None:
    async with LocalCluster() as cluster:
        async with Producer("first", namesrv=cluster.namesrv) as first:
            await first.send(Message("orders", b"0"))  # so that the broker has opened its files
        await asyncio.sleep(0.05)
        threads, tasks = threading.active_count(), len(asyncio.all_tasks())
        before = descriptors()
        for _ in range(3):
            async with Producer("one", namesrv=cluster.namesrv) as one, Producer("two", namesrv=cluster.namesrv) as two:
                assert one.instance is two.instance
                await one.send(Message("orders", b"1"))
                await two.send(Message("orders", b"2"))
            with pytest.raises(ClientClosed):
                await one.send(Message("orders", b"3"))
            await one.close()  # again, without harm
        for _ in range(200):
            if descriptors() == before:
                break
            await asyncio.sleep(0.01)
        assert descriptors() == before
        assert (threading.active_count(), len(asyncio.all_tasks())) == (threads, tasks)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gc.collect()


async def test_closing_while_sends_wait() -> None:
    async with LocalCluster() as cluster:
        producer = await Producer("sdk", namesrv=cluster.namesrv, in_flight=4).start()
        sends = [asyncio.create_task(producer.send(Message("orders", b"%d" % n))) for n in range(40)]
        await asyncio.sleep(0)
        await producer.close()
        ended = await asyncio.gather(*sends, return_exceptions=True)
        assert {type(end).__name__ for end in ended} <= {"Receipt", "ClientClosed", "SendFailed"}


async def test_cancelled_sends_leave_no_trace() -> None:
    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv, in_flight=2) as producer:
        await producer.send(Message("orders", b"1"))
        for _ in range(5):
            sends = [asyncio.create_task(producer.send(Message("orders", b"2"))) for _ in range(20)]
            await asyncio.sleep(0)
            for send in sends[::2]:
                send.cancel()
            await asyncio.gather(*sends, return_exceptions=True)
        await producer.send(Message("orders", b"3"))
        await producer.flush()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
async def test_after_a_fork_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv) as producer:
        await producer.send(Message("orders", b"1"))
        monkeypatch.setattr(GENERATION, "number", GENERATION.number + 1)
        with pytest.raises(ClientForked, match="after the fork"):
            await producer.send(Message("orders", b"2"))
        monkeypatch.undo()


PROGRAM = """
    import asyncio, os, sys
    {before}
    from cometmq import Message, Producer
    from cometmq.errors import ClientForked

    async def send_in_child(namesrv):
        async with Producer("sdk", namesrv=namesrv) as producer:
            await producer.send(Message("orders", b"3"))

    async def send(namesrv):
        asyncio.get_running_loop().slow_callback_duration = 60  # the machine may be busy, and a child is waited for
        async with Producer("sdk", namesrv=namesrv) as producer:
            await producer.send(Message("orders", b"1"))
            {inside}
            await producer.send(Message("orders", b"2"))
        print("sent", *[task for task in asyncio.all_tasks() if "cometmq" in task.get_name()])

    {run}
"""
FORK = """
            sys.stdout.flush()
            if (pid := os.fork()) == 0:
                try:
                    producer._open()
                except ClientForked:
                    asyncio.run(send_in_child(namesrv))
                    os._exit(7)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
"""


@pytest.mark.parametrize(
    ("before", "inside", "run"),
    [
        ("", "", "asyncio.run(send(sys.argv[1]))"),
        ("import uvloop", "", "uvloop.run(send(sys.argv[1]))"),
        ("", FORK, "asyncio.run(send(sys.argv[1]))"),
    ],
    ids=["asyncio", "uvloop", "fork"],
)
async def test_programs(before: str, inside: str, run: str) -> None:
    program = textwrap.dedent(PROGRAM).format(
        before=textwrap.dedent(before), inside=textwrap.indent(textwrap.dedent(inside), " " * 8).strip(), run=run
    )
    async with LocalCluster() as cluster:
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, cluster.namesrv]
        ended = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
        )
        assert (ended.stdout.strip(), ended.stderr) == ("sent", "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"retries": -1}, {"send_timeout_ms": 0}, {"in_flight": 0}, {"strategy": "best"}, {"heartbeat_interval_s": 0},
        {"close_timeout_s": -1}, {"namesrv": "nowhere"}, {"group": "a b"},
    ],
)  # fmt: skip
def test_wrong_options(wrong: dict[str, object]) -> None:
    given = {"group": "sdk", "namesrv": "127.0.0.1:1"} | wrong
    with pytest.raises(ValueError) as refused:
        Producer(**given)  # type: ignore[arg-type]
    assert isinstance(refused.value, InvalidArgument)


async def test_used_before_it_is_open() -> None:
    producer = Producer("sdk", namesrv="127.0.0.1:1")
    with pytest.raises(ClientClosed, match="async with"):
        await producer.send(Message("orders", b"1"))
    await producer.close()
