"""Pop at a slave whose master is gone: messages are handed out one by one, and none is lost when the master is back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.broker.group_kit import ACTING, SLAVE, A, Group, count, group, make_topic, send, until

from cometmq import SimpleConsumer
from cometmq.broker.config import BrokerConfig
from cometmq.broker.offsets import Offsets
from cometmq.broker.pop.at_slave import PopsAtSlave
from cometmq.broker.pop.checkpoint import Ack, CheckPoint
from cometmq.errors import CometError, PeerRefused, StoreNotWritable
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import CreateGroup
from cometmq.wire.requests.consume import OffsetReply, QueryConsumerOffset
from cometmq.wire.requests.pop import AckMessage, ChangeInvisibleTime, PopMessage, PopMessageReply

from .state_kit import MemoryTable, StillClock

LONG_MS = 60_000


class Out(NamedTuple):
    """A message that was handed out."""

    body: bytes
    offset: int
    receipt: str


async def pop(
    brokers: Group, name: str, number: int, invisible_ms: int = LONG_MS, wait_ms: int = 0, **more: Any
) -> list[Out]:
    request = PopMessage("g", "T", 0, number, invisible_ms, wait_ms, time.time_ns() // 10**6, 0, **more)
    channel = await brokers.pool.channel(brokers.running[name].address)
    answer = await channel.exchange(request.command(), timeout_ms=30_000)
    if answer.code == ResponseCode.POLLING_TIMEOUT:
        return []
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    reply = PopMessageReply.read(answer.ext)
    assert reply.start_offset_info is not None
    start = reply.start_offset_info.split(" ")[2]
    return [
        Out(
            record.body,
            record.queue_offset,
            f"{start} {reply.pop_time} {reply.invisible_time} {reply.revive_qid} 0 {A} 0 {record.queue_offset}",
        )
        for record in decode_records(answer.body)
    ]


async def ack(brokers: Group, name: str, *done: Out) -> None:
    for one in done:
        await brokers.ask(name, AckMessage("T", "g", 0, one.receipt, one.offset))


async def committed(brokers: Group, name: str) -> int:
    return OffsetReply.read((await brokers.ask(name, QueryConsumerOffset("T", 0, "g"))).ext).offset


async def master_with_slave(brokers: Group, messages: int) -> None:
    """The slave has so many messages, and refuses pop."""
    for name in (A, SLAVE):
        await brokers.start(name)
    await make_topic(brokers, A)
    await brokers.ask(A, CreateGroup(), fastjson.dumps({"groupName": "g"}))
    for number in range(messages):
        await send(brokers, A, b"%d" % number)

    async def ready() -> bool:
        assert await refused(brokers, SLAVE), "its master is there"
        return await count(brokers, SLAVE) == messages

    await until(ready, "the slave has everything")


async def alone(brokers: Group, messages: int) -> None:
    """A slave with so many messages acts for its master."""
    await master_with_slave(brokers, messages)
    await brokers.stop(A)

    async def serves() -> bool:
        return not await refused(brokers, SLAVE)

    await until(serves, "the slave serves pop")


async def refused(brokers: Group, name: str) -> bool:
    """Whether a pop is refused; one for no messages takes none."""
    try:
        await brokers.ask(name, PopMessage("g", "T", 0, 0, LONG_MS, 0, time.time_ns() // 10**6, 0))
    except PeerRefused as refusal:
        if refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            return True
        assert refusal.code == ResponseCode.POLLING_TIMEOUT, refusal
    return False


async def test_the_offset_stops_at_the_lowest_message_that_is_not_acknowledged(tmp_path: Path) -> None:
    async with group(tmp_path, **ACTING) as brokers:
        await alone(brokers, 6)
        first = await pop(brokers, SLAVE, 3, 700)
        assert [one.body for one in first] == [b"0", b"1", b"2"]
        rest = await pop(brokers, SLAVE, 32)
        assert [one.body for one in rest] == [b"3", b"4", b"5"], "those that are out are not handed out"
        await ack(brokers, SLAVE, first[1])
        assert await committed(brokers, SLAVE) == 0
        await ack(brokers, SLAVE, first[0])
        assert await committed(brokers, SLAVE) == 2
        again = await back(brokers, 2)
        await ack(brokers, SLAVE, first[2])  # by its older receipt: it was consumed, whoever says so
        assert await committed(brokers, SLAVE) == 3
        await ack(brokers, SLAVE, again, *rest)
        assert await committed(brokers, SLAVE) == 6


async def back(brokers: Group, offset: int, invisible_ms: int = LONG_MS) -> Out:
    """A message that comes again; nothing else does."""
    found: list[Out] = []

    async def came() -> bool:
        found.extend(await pop(brokers, SLAVE, 1, invisible_ms))
        return bool(found)

    await until(came, f"message {offset} is handed out again")
    return found[0]


async def test_who_waits_is_told_when_a_message_is_visible_again(tmp_path: Path) -> None:
    async with group(tmp_path, **ACTING) as brokers:
        await alone(brokers, 2)
        assert len(await pop(brokers, SLAVE, 2, 1_000)) == 2
        began = time.monotonic()
        assert [one.body for one in await pop(brokers, SLAVE, 1, wait_ms=15_000)] == [b"0"]
        assert [one.body for one in await pop(brokers, SLAVE, 1, wait_ms=15_000)] == [b"1"]
        assert time.monotonic() - began < 10


async def test_more_time_is_given_and_taken(tmp_path: Path) -> None:
    async with group(tmp_path, **ACTING) as brokers:
        await alone(brokers, 2)
        long, short = await pop(brokers, SLAVE, 2, 1_500)
        for one, ms in ((long, LONG_MS), (short, 100)):
            await brokers.ask(SLAVE, ChangeInvisibleTime("T", "g", 0, one.receipt, one.offset, ms))
        assert [one.body for one in await pop(brokers, SLAVE, 2, 300, 10_000)] == [b"1"]
        assert [one.body for one in await pop(brokers, SLAVE, 2, 1_500, 10_000)] == [b"1"]
        assert [one.body for one in await pop(brokers, SLAVE, 2, LONG_MS, 10_000)] == [b"1"]
        assert await committed(brokers, SLAVE) == 0


async def test_receipts_that_name_nothing_change_nothing(tmp_path: Path) -> None:
    async with group(tmp_path, **ACTING) as brokers:
        await alone(brokers, 4)
        (one,) = await pop(brokers, SLAVE, 1)
        await ack(brokers, SLAVE, one._replace(offset=3))  # not out
        await brokers.ask(SLAVE, ChangeInvisibleTime("T", "g", 0, one.receipt, 3, 10))
        await ack(brokers, SLAVE, one._replace(receipt=one.receipt.replace(" 0 broker-a", " 0 broker-z")))
        assert await committed(brokers, SLAVE) == 1
        for receipt, offset in ((one.receipt, 99), (one.receipt, -1), ("", 0), ("a b c d e f", 0)):
            with pytest.raises(PeerRefused):
                await brokers.ask(SLAVE, AckMessage("T", "g", 0, receipt, offset))
            with pytest.raises(PeerRefused):
                await brokers.ask(SLAVE, ChangeInvisibleTime("T", "g", 0, receipt, offset, 10))
        assert [one.body for one in await pop(brokers, SLAVE, 32)] == [b"1", b"2", b"3"]


async def test_a_consumer_goes_on_at_the_slave_and_then_at_its_master(tmp_path: Path) -> None:
    heard: Counter[bytes] = Counter()
    messages = [b"%d" % number for number in range(60)]

    async def hear(consumer: SimpleConsumer) -> None:
        async for message in consumer.receive("T", max_messages=4, invisible=timedelta(seconds=5)):
            heard[message.body] += 1
            with contextlib.suppress(CometError):  # of one that the dead master handed out
                await message.ack()
            await asyncio.sleep(0.02)

    async with group(tmp_path, **ACTING) as brokers:
        await master_with_slave(brokers, len(messages))
        options: Any = {"start_from": "first", "in_flight": 4, "route_interval_s": 0.2, "heartbeat_interval_s": 1.0}
        async with SimpleConsumer("g", namesrv=brokers.name_server.address, **options) as consumer:
            hearing = asyncio.create_task(hear(consumer))
            await until(lambda: so_many(heard, 15), "the consumer is in the midst of it")
            await brokers.stop(A)
            before = len(heard)
            assert before < 40, "too quick to be in the midst of it"
            await until(lambda: so_many(heard, before + 10), "it goes on at the slave")
            at_slave = await committed(brokers, SLAVE)
            await brokers.start(A)
            assert await committed(brokers, A) >= at_slave
            await send(brokers, A, b"new")
            await until(lambda: so_many(heard, len(messages) + 1), "it hears the rest at the master")
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
        assert heard.keys() == {*messages, b"new"}
        repeated = sum(times - 1 for times in heard.values())
        assert repeated <= before + 16, "what was consumed since the slave copied the offsets, and what was out"
        assert await refused(brokers, SLAVE)


async def so_many(heard: Counter[bytes], number: int) -> bool:
    return len(heard) >= number


# --- the books alone


def books(**keys: Any) -> tuple[PopsAtSlave, Offsets, StillClock]:
    config, clock = BrokerConfig(**keys), StillClock()
    offsets = Offsets(MemoryTable(), config, clock)
    return PopsAtSlave(config, offsets, clock), offsets, clock


async def serving(made: PopsAtSlave) -> asyncio.Task[None]:
    task = asyncio.create_task(made.serve())
    await asyncio.sleep(0)
    return task


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_was_out_is_forgotten_when_the_slave_acts_no_more() -> None:
    made, _, clock = books()
    task = await serving(made)
    made.add(CheckPoint("T", "g", 0, 0, clock.now_ms(), 10, "b", [0, 1]), 0, 2)
    assert made.latest("T", "g", 0) == 2
    await end(task)
    assert made.latest("T", "g", 0) == -1
    for call in (made.check, lambda: made.acknowledge(Ack("T", "g", 0, 0, 0, "b", [0]))):
        with pytest.raises(StoreNotWritable, match="only while it acts"):
            call()


async def test_so_many_may_be_out() -> None:
    made, offsets, clock = books(enable_pop_message_threshold=True, pop_inflight_message_threshold=2)
    task = await serving(made)
    made.add(CheckPoint("T", "g", 0, 0, clock.now_ms(), 10, "b", [0, 1]), 0, 2)
    assert made.is_full("T", "g", 0) and not made.is_full("T", "g", 1)
    offsets.remove_topic("T")
    assert not made.is_full("T", "g", 0)
    await end(task)


STEPS = st.lists(st.tuples(st.sampled_from(["pop", "ack", "later", "wait"]), st.integers(0, 40)), max_size=80)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_the_offset_never_passes_a_message_that_is_not_acknowledged(steps: list[tuple[str, int]]) -> None:
    asyncio.run(hold_to_the_model(steps))


async def hold_to_the_model(steps: list[tuple[str, int]]) -> None:
    made, offsets, clock = books()
    task = await serving(made)
    out: dict[int, int] = {}  # offset → visible again
    next_offset = 0
    for what, number in steps:
        now_ms = clock.now_ms()
        if what == "pop" and (again := made.overdue("T", "g", 0)) is not None:
            assert out[again] == min(out.values()) <= now_ms
            made.add(CheckPoint("T", "g", 0, again, now_ms, 5, "b", [0]), 0, again + 1)
            out[again] = now_ms + 5
        elif what == "pop":
            assert not [one for one in out.values() if one <= now_ms]
            chosen = range(0, 1 + number % 7, 1 + number % 2)
            made.add(CheckPoint("T", "g", 0, next_offset, now_ms, 1 + number, "b", [*chosen]), 0, next_offset + 8)
            out |= {next_offset + diff: now_ms + 1 + number for diff in chosen}
            next_offset += 8
        elif what == "ack":
            made.acknowledge(Ack("T", "g", 0, 0, 0, "b", [number]))
            out.pop(number, None)
        elif what == "later":
            made.prolong("T", "g", 0, number, now_ms + 7)
            if number in out:
                out[number] = now_ms + 7
        else:
            clock.time_ms += number
        if next_offset:
            assert offsets.query("g", "T", 0) == min(out, default=next_offset)
    await end(task)
