"""The SDK without `async`: the same results, from any thread, in any program; nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import FrameType

import pytest
from tests.sdk import blocking_stub
from tests.sdk.conftest import Server

from cometmq import Decision, Message, MessageQueue, blocking
from cometmq.errors import ClientClosed, ClientError, ClientForked, InvalidArgument, InvalidMessage, TopicNotFound
from cometmq.testing.pytest_plugin import RunningCluster

SHORT = timedelta(seconds=1)
LONG = timedelta(seconds=60)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert "cometmq blocking" not in [thread.name for thread in threading.enumerate()]


def new(kind: str = "topic") -> str:
    return f"{kind}-{uuid.uuid4().hex}"


def test_send_and_receive(server: Server) -> None:
    topic = new()
    with blocking.Producer("sdk", namesrv=server.namesrv) as producer:
        producer.create_topic(topic, queues=2)
        assert producer.group == "sdk"
        first = producer.send(Message(topic, b"0"))
        assert isinstance(first.queue, MessageQueue)
        posted = [producer.post(Message(topic, b"%d" % number)) for number in range(1, 4)]
        assert len({future.result(5).message_id for future in posted}) == 3
        with producer.pipeline(in_flight=3) as pipeline:
            for number in range(4, 8):
                pipeline.send(Message(topic, b"%d" % number))
        assert (len(pipeline.receipts), pipeline.sent, pipeline.failures) == (4, 4, [])
        assert len(producer.send_batch([Message(topic, b"8"), Message(topic, b"9")])) == 2
        assert producer.counters["in_flight"] == 0
    with blocking.SimpleConsumer(new("group"), namesrv=server.namesrv, start_from="first") as consumer:
        found = []
        for message in consumer.receive(topic, invisible=LONG, wait=SHORT):
            found.append(int(message.body))
            message.change_invisible(LONG)
            message.ack()
        assert sorted(found) == list(range(10))
        assert consumer.counters == {"received": 10, "acknowledged": 10, "in_flight": 0}
    with blocking.LitePullConsumer(new("group"), namesrv=server.namesrv, start_from="first") as puller:
        puller.subscribe(topic)
        found = []
        for message in puller.messages():
            found.append(int(message.body))
            if len(found) == 10:
                break
        assert sorted(found) == list(range(10))
        assert sum(puller.positions.values()) == 10
        puller.commit()


def test_functions_of_the_program_may_block(server: Server) -> None:
    """Listeners, executors and checkers run in threads, and may use the client themselves."""
    topic, replies, heard = new(), new("replies"), threading.Event()
    loop_threads = {thread.ident for thread in threading.enumerate() if thread.name == "cometmq blocking"}
    with blocking.Producer(new("group"), namesrv=server.namesrv, checker=lambda _: Decision.COMMIT) as producer:
        producer.create_topic(topic, queues=1)
        producer.create_topic(replies, queues=1)

        def listen(message: blocking.ReceivedMessage) -> None:
            assert isinstance(message, blocking.ReceivedMessage)
            assert threading.get_ident() not in loop_threads
            producer.send(Message(replies, message.body))
            if message.body == b"3":
                heard.set()

        consumer = blocking.PushConsumer(new("group"), namesrv=server.namesrv, start_from="first")
        assert consumer.subscribe(topic, listen) is consumer
        with consumer:

            def execute(message: Message) -> Decision:
                producer.send(Message(topic, b"2"))
                return Decision.COMMIT

            with producer.transaction(Message(topic, b"1")) as opened:
                assert opened.transaction_id
            assert producer.send_in_transaction(Message(topic, b"3"), execute)[1] is Decision.COMMIT
            with pytest.raises(KeyError), producer.transaction(Message(topic, b"never")):
                raise KeyError
            assert heard.wait(20)
            assert topic in [queue.topic for queue in consumer.queues]


def test_many_threads(cometmq: RunningCluster) -> None:
    topic = cometmq.topic()
    with (
        blocking.Producer("sdk", namesrv=cometmq.namesrv) as producer,
        ThreadPoolExecutor(8) as pool,
        blocking.SimpleConsumer(new("group"), namesrv=cometmq.namesrv, start_from="first") as consumer,
    ):
        ids = set(pool.map(lambda n: producer.send(Message(topic, b"%d" % n)).message_id, range(200)))
        assert len(ids) == 200

        def take(_: int) -> list[str]:
            found = []
            for message in consumer.receive(topic, invisible=LONG, wait=SHORT):
                message.ack()
                found.append(message.message_id)
            return found

        taken = [one for found in pool.map(take, range(4)) for one in found]
        assert sorted(taken) == sorted(ids)


async def test_where_a_loop_runs_already(cometmq: RunningCluster) -> None:
    """As in a cell of Jupyter."""
    topic = cometmq.topic()
    with blocking.Producer("sdk", namesrv=cometmq.namesrv) as producer:
        assert producer.send(Message(topic, b"1")).message_id
    assert len(asyncio.all_tasks()) == 1


def test_errors_are_those_of_the_sdk(cometmq: RunningCluster) -> None:
    producer = blocking.Producer("sdk", namesrv=cometmq.namesrv)
    topic = cometmq.topic()
    for _ in range(2):
        with pytest.raises(ClientClosed, match="with Producer"):
            producer.send(Message(topic, b"1"))
    with producer:
        with pytest.raises(InvalidMessage):
            producer.send(Message(topic, b"x" * 5_000_000))
        with pytest.raises(ClientError, match="itself"):
            producer.send(Message(topic, b"1"), select=lambda queues: producer.queues(topic)[0])
        with pytest.raises(ClientClosed):
            producer.start()
        producer.send(Message(topic, b"1"))
    producer.close()
    with pytest.raises(ClientClosed, match="make a new one"):
        producer.send(Message(topic, b"1"))
    with pytest.raises(InvalidArgument):
        blocking.SimpleConsumer("a b", namesrv=cometmq.namesrv)
    with blocking.SimpleConsumer("g", namesrv=cometmq.namesrv, start_from="first") as consumer:
        with pytest.raises(TopicNotFound):
            consumer.pop("absent")
        with pytest.raises(TopicNotFound):
            next(consumer.receive("absent", wait=SHORT))
        (message,) = consumer.pop(topic, invisible=SHORT)
    with pytest.raises(ClientClosed):
        message.ack()


def test_closed_while_another_waits(cometmq: RunningCluster) -> None:
    topic = cometmq.topic()
    consumer = blocking.SimpleConsumer("g", namesrv=cometmq.namesrv).start()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(consumer.pop, topic, wait=LONG)
        time.sleep(0.2)
        begun = time.monotonic()
        consumer.close()
        with pytest.raises(ClientClosed):
            waiting.result(10)
        assert time.monotonic() - begun < 5


def test_interrupted(cometmq: RunningCluster) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    topic = cometmq.topic()
    with blocking.SimpleConsumer("g", namesrv=cometmq.namesrv) as consumer:
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                consumer.pop(topic, wait=LONG)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert consumer.pop(topic, wait=timedelta(0)) == []


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


LEFT_OPEN = """
import sys
from cometmq import Message, blocking
producer = blocking.Producer("p", namesrv=sys.argv[1]).start()
consumer = blocking.SimpleConsumer("g", namesrv=sys.argv[1]).start()
messages = consumer.receive(sys.argv[2])
producer.send(Message(sys.argv[2], b"1"))
print(next(messages).body)
"""


def test_a_program_that_closes_nothing_ends(cometmq: RunningCluster) -> None:
    begun = time.monotonic()
    ended = run(LEFT_OPEN, cometmq.namesrv, cometmq.topic())
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "b'1'", "")
    assert time.monotonic() - begun < 15


FORKED = """
import os, sys, threading
from cometmq import Message, blocking
from cometmq.errors import ClientForked
namesrv, topic = sys.argv[1:]
producer = blocking.Producer("p", namesrv=namesrv).start()
producer.send(Message(topic, b"parent"))
child = os.fork()
if child == 0:
    try:
        producer.send(Message(topic, b"never"))
    except ClientForked:
        producer.close()                                    # the parent's: left alone
        with blocking.Producer("p", namesrv=namesrv) as own:
            own.send(Message(topic, b"child"))
        os._exit(7)
    os._exit(1)
_, status = os.waitpid(child, 0)
producer.send(Message(topic, b"parent again"))
producer.close()
print(os.waitstatus_to_exitcode(status), threading.active_count())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork(cometmq: RunningCluster) -> None:
    topic = cometmq.topic()
    ended = run(FORKED, cometmq.namesrv, topic)
    assert ended.stdout.split() == ["7", "1"], ended.stderr
    with blocking.SimpleConsumer("g", namesrv=cometmq.namesrv, start_from="first") as consumer:
        found = {message.body for message in consumer.receive(topic, wait=SHORT)}
    assert found == {b"parent", b"child", b"parent again"}
    assert ClientForked.__doc__


TYPED = """
from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import assert_type

from cometmq import Decision, Message, Receipt, ReceivedMessage, SimpleConsumer, TopicHandler, Transaction, blocking
from cometmq import consumer as consumes


def check(message: blocking.ReceivedMessage) -> Decision:
    return Decision.COMMIT


with blocking.Producer("p", checker=check, namesrv="x:1") as producer:
    assert_type(producer.send(Message("t", b"1"), delay=timedelta(seconds=1)), Receipt)
    assert_type(producer.post(Message("t", b"1")), Future[Receipt])
    assert_type(producer.transaction(Message("t", b"1")), AbstractContextManager[Transaction])
    with producer.pipeline() as pipeline:
        assert_type(pipeline, blocking.Pipeline)
with blocking.SimpleConsumer("g") as consumer:
    for message in consumer.receive("t", tags="a"):
        assert_type(message, blocking.ReceivedMessage)
        assert_type(message.body, bytes)
        message.ack()


async def receive() -> None:
    async with SimpleConsumer("g") as consumer:
        async for message in consumer.receive("t"):
            assert_type(message, ReceivedMessage)
            await message.ack()


producer.send(b"1")  # type: ignore[arg-type]
consumer.receive("t", tag="a")  # type: ignore[call-arg]
blocking.Producer("g", retrys=3)  # type: ignore[call-arg]
blocking.PushConsumer("g", request_timeout_ms="1")  # type: ignore[arg-type]
SimpleConsumer("g", in_fligth=3)  # type: ignore[call-arg]
consumes("t", group="g", concurency=3)  # type: ignore[call-arg]
TopicHandler("t", retries=3, close_timeout_s=1.0)
TopicHandler("t", retrys=3)  # type: ignore[call-arg]
TopicHandler("t", send_timeout_ms="1")  # type: ignore[arg-type]
pipeline.send(Message("t", b"1"), delay=3)
pipeline.send(Message("t", b"1"), dealy=3)  # type: ignore[call-arg]
"""


def test_types(tmp_path: Path) -> None:
    assert blocking_stub.STUB.read_text(encoding="utf-8") == blocking_stub.render(), (
        "run: python -m tests.sdk.blocking_stub"
    )
    program = tmp_path / "program.py"
    program.write_text(TYPED, encoding="utf-8")
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".mypy_cache", str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert told.returncode == 0, told.stdout


def test_the_stub_and_the_classes_agree() -> None:
    for name, (source, offers) in blocking.DECLARED.items():
        made = getattr(blocking, name)
        assert made.__module__ == "cometmq.blocking"
        for offered in offers.split():
            assert hasattr(made, offered), f"{name}.{offered}"
        assert made.__doc__ == source.__doc__
