"""A master is killed while consumers read: they go on at its slave, producers at the other master; then it comes back.

Consumers in Python and Java, slow enough to be in the midst of it. Under SYNC_MASTER with two replicas every
acknowledged message is at the slave, so all of them must be heard while the master is dead.
"""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.interop.clients import client_jars
from tests.original.cluster import Kind
from tests.original.jars import VERSION
from tests.original.process import BrokerProcess
from tests.original.programs import java_program

from cometmq import Decision, Message, Producer, PushConsumer, ReceivedMessage
from cometmq.model import properties
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage, QueryConsumerOffset
from cometmq.wire.requests.send import SendMessageV2

from .harness.pair import progress
from .harness.rows import share
from .harness.two_masters import ACTING, QUEUES, TOPIC, A, B, Brokers, until

pytestmark = pytest.mark.timeout(240)

READER = Path(__file__).parent / "java" / "Reader.java"
READ_AHEAD = 16  # messages of a queue that a consumer may hold
ACTORS: list[tuple[Kind, Kind, str]] = [("comet", "comet", "SYNC_MASTER"), ("comet", "comet", "ASYNC_MASTER")]
if share() is not None:
    ACTORS += [("java", "comet", "SYNC_MASTER"), ("comet", "java", "SYNC_MASTER")]
HALF = {"TRAN_MSG": "true", "PGROUP": "askable"}


@asynccontextmanager
async def java_reader(namesrv: str, group: str, heard: Counter[str]) -> AsyncIterator[Process]:
    command = java_program(READER, client_jars(VERSION))
    running = await asyncio.create_subprocess_exec(
        *command, namesrv, group, TOPIC, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    assert running.stdin is not None and running.stdout is not None

    async def read(lines: asyncio.StreamReader) -> None:
        async for line in lines:
            _, _, name = line.decode().strip().partition(" ")
            heard[name] += 1

    reading = asyncio.create_task(read(running.stdout))
    try:
        yield running
        running.stdin.close()
        await asyncio.wait_for(running.wait(), 30)
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
        await reading


async def send(producer: Producer, names: range) -> dict[str, str]:
    """Which broker acknowledged each."""
    async with producer.pipeline(in_flight=20) as pipeline:
        for name in names:
            await pipeline.send(Message(TOPIC, b"%d" % name))
    assert len(pipeline.receipts) == len(names)
    return {str(name): receipt.broker_name for name, receipt in zip(names, pipeline.receipts, strict=True)}


async def test_consumers_go_on_and_nothing_is_lost_or_repeated(tmp_path: Path) -> None:
    python: Counter[str] = Counter()
    java: Counter[str] = Counter()
    fast = asyncio.Event()

    async def hear(message: ReceivedMessage) -> None:
        if not fast.is_set():
            await asyncio.sleep(0.02)
        python[message.body.decode()] += 1

    with ExitStack() as running:
        brokers = Brokers(tmp_path, running)
        await brokers.make_topic()
        await until(lambda: is_replicated(brokers), "the slave follows")
        namesrv = brokers.namesrv.addr
        quick = {"namesrv": namesrv, "route_interval_s": 0.5, "heartbeat_interval_s": 1.0}
        consumer = PushConsumer(
            "python",
            concurrency=2,
            start_from="first",
            pull_batch=8,
            queue_messages=READ_AHEAD,
            **quick,  # type: ignore[arg-type]
        ).subscribe(TOPIC, hear)
        async with Producer("producers", **quick) as producer, java_reader(namesrv, "java", java) as reader:  # type: ignore[arg-type]
            sent = await send(producer, range(400))
            assert set(sent.values()) == {A, B}
            await until(lambda: len(java) > 10, "Java reads")
            async with consumer:
                await until(lambda: min(len(python), len(java)) > 40, "both consumers read")
                brokers.master.kill()
                for heard in (python, java):
                    left = [name for name, broker in sent.items() if broker == A and name not in heard]
                    assert len(left) > READ_AHEAD * QUEUES, "too quick to be in the midst of it"

                sent |= await send(producer, range(400, 450))
                elsewhere = await send(producer, range(450, 500))
                assert set(elsewhere.values()) == {B}
                sent |= elsewhere
                await refuses_messages(brokers)
                fast.set()
                assert reader.stdin is not None
                reader.stdin.write(b"\n")
                await until(lambda: python.keys() >= sent.keys(), "Python hears all that was acknowledged")
                await until(lambda: java.keys() >= sent.keys(), "Java hears all that was acknowledged")

                brokers.master.start()
                for group in ("python", "java"):
                    await until(lambda group=group: offsets_are_back(brokers, group), f"{group}'s offsets came back")
                async with Producer("newcomers", **quick) as newcomer:  # the old one still avoids who failed it
                    await until(lambda: writes_to_both(newcomer, sent), "the master takes messages again")
                await until(lambda: python.keys() >= sent.keys(), "Python hears the rest")
                await until(lambda: java.keys() >= sent.keys(), "Java hears the rest")
        java.pop("-", None)
        for heard in (python, java):
            assert sum(count - 1 for count in heard.values()) <= READ_AHEAD * QUEUES * 2  # at least once, rarely more
        await brokers.pool.close()


@pytest.mark.parametrize(("master", "slave", "role"), ACTORS)
async def test_a_slave_acts_and_the_master_repeats_nothing(
    master: Kind, slave: Kind, role: str, tmp_path: Path
) -> None:
    with ExitStack() as running:
        brokers = Brokers(tmp_path, running, ACTING, (master, slave), role)
        await brokers.make_topic()
        await until(lambda: is_replicated(brokers), "the slave follows")
        channel = await brokers.pool.channel(brokers.master.addr)
        for name, wish in (("level", {"DELAY": "2"}), ("timed", {"TIMER_DELAY_MS": "6500"}), ("half", HALF)):
            text = properties.render({"UNIQ_KEY": name, **wish})
            await channel.call(
                SendMessageV2("p", TOPIC, "TBW102", 1, 0, 0, time.time_ns() // 10**6, 0, text), name.encode()
            )
        if role == "ASYNC_MASTER":  # else they are there, as they were acknowledged
            await until(lambda: has_the_masters_log(brokers), "the slave has them")
        brokers.master.kill()
        checked = Producer(
            "askable", namesrv=brokers.namesrv.addr, heartbeat_interval_s=1.0, checker=lambda _: Decision.COMMIT
        )
        async with checked as producer:
            await producer.send(Message(TOPIC, b"so that the other master knows this producer"))
            await until(lambda: has(brokers, brokers.other, {"half", "level", "timed"}), "the other master has all")
            brokers.master.start()
            await until(lambda: send_later(brokers), "the master takes messages again")
            await until(lambda: has(brokers, brokers.master, {"later"}), "the master delivers again")
        assert set(await bodies(brokers, brokers.master)) == {"later"}
        there = Counter(await bodies(brokers, brokers.other))
        assert (there["half"], there["level"], there["timed"]) == (1, 1, 1)
        await brokers.pool.close()


async def send_later(brokers: Brokers) -> bool:
    channel = await brokers.pool.channel(brokers.master.addr)
    text = properties.render({"DELAY": "1"})
    await channel.call(SendMessageV2("p", TOPIC, "TBW102", 1, 0, 0, time.time_ns() // 10**6, 0, text), b"later")
    return True


async def is_replicated(brokers: Brokers) -> bool:
    """Whether the slave takes what the master is sent."""
    channel = await brokers.pool.channel(brokers.master.addr)
    await channel.call(SendMessageV2("p", "probe", "TBW102", 1, 0, 0, time.time_ns() // 10**6, 0, ""), b"x")
    return True


async def has_the_masters_log(brokers: Brokers) -> bool:
    return (await progress(brokers.slave))[0] == (await progress(brokers.master))[0]


async def bodies(brokers: Brokers, broker: BrokerProcess) -> list[str]:
    """What stands in the topic."""
    found: list[str] = []
    channel = await brokers.pool.channel(broker.addr)
    for queue_id in range(QUEUES):
        answer = await channel.exchange(PullMessage("look", TOPIC, queue_id, 0, 32, 4, 0, 0, 0, "*").command())
        found += [str(record.body, "utf-8") for record in decode_records(answer.body)]
    return found


async def has(brokers: Brokers, broker: BrokerProcess, wanted: set[str]) -> bool:
    return set(await bodies(brokers, broker)) >= wanted


async def refuses_messages(brokers: Brokers) -> None:
    channel = await brokers.pool.channel(brokers.slave.addr)
    request = SendMessageV2("p", TOPIC, "TBW102", 1, 0, 0, 0, 0, "")
    assert (await channel.exchange(request.command(b"x"))).code == ResponseCode.SYSTEM_BUSY


async def offsets_are_back(brokers: Brokers, group: str) -> bool:
    """Whether the master knows that a group has consumed everything of it."""
    for queue_id in range(QUEUES):
        end = await brokers.offset(brokers.master, GetMaxOffset(TOPIC, queue_id))
        if await brokers.offset(brokers.master, QueryConsumerOffset(TOPIC, queue_id, group)) != end:
            return False
    return True


async def writes_to_both(producer: Producer, sent: dict[str, str]) -> bool:
    more = await send(producer, range(len(sent), len(sent) + 8))
    sent |= more
    return set(more.values()) == {A, B}
