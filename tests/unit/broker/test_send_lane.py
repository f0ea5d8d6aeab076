"""The short cut of sends, where something comes in between. What it stores is tried in tests/property."""

from __future__ import annotations

import asyncio
import os
from itertools import islice
from threading import Event
from typing import Any

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.ha_kit import until
from tests.unit.broker.test_durability import replace_sync

from cometmq import compiled
from cometmq.broker import app
from cometmq.broker.acknowledgements import ReadyReplies
from cometmq.broker.durability import Durability
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.store.commit_log import CommitLog
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.requests.admin import CreateTopic, DeleteTopicInBroker
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply
from cometmq.wire.requests.send import SendMessageV2

FLUSHES = pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
TWO_BROKERS = {"flushDiskType": "ASYNC_FLUSH", "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}


class Taken:
    """What took the short cut, and where it waits."""

    def __init__(self) -> None:
        self.replies: list[ReadyReplies] = []
        self.durabilities: list[Durability] = []

    @property
    def last_count(self) -> int:
        """Sends in the last group; -1 without the extension, which alone makes groups."""
        return self.replies[-1].count if compiled.twins is not None else -1


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    taken = Taken()

    class Known(Durability):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            taken.durabilities.append(self)

        def let_leave_when_safe(self, replies: ReadyReplies) -> None:
            taken.replies.append(replies)
            super().let_leave_when_safe(replies)

    monkeypatch.setattr(app, "Durability", Known)
    return taken


def send(queue_id: int = 0, key: str = "7F000001", *, waits: bool = True) -> Command:
    properties = f"UNIQ_KEY\x01{key}\x02WAIT\x01{str(waits).lower()}\x02TAGS\x01A\x02"
    request = SendMessageV2(
        producer_group="producers", topic="orders", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=queue_id, sys_flag=0, born_timestamp=1, flag=0, properties=properties, reconsume_times=0,
        unit_mode=False, batch=False, broker_name="broker-a",
    )  # fmt: skip
    return request.command(b"body")


def topic(queues: int) -> CreateTopic:
    return CreateTopic(
        topic="orders", default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip


async def codes(channel: Channel, *requests: Command) -> list[int]:
    return [answer.code for answer in await asyncio.gather(*map(channel.exchange, requests))]


async def stored(channel: Channel) -> int:
    return OffsetReply.read((await channel.call(GetMaxOffset("orders", 0))).ext).offset


async def test_a_failed_write_refuses_each_of_them(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(flushDiskType="ASYNC_FLUSH") as (_, channel):
        for _ in range(3):
            assert await codes(channel, send()) == [ResponseCode.SUCCESS]

        def fail(*_: Any) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(CommitLog, "_write_parts", fail)
        assert set(await codes(channel, *(send() for _ in range(5)))) == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert set(await codes(channel, send())) == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert await stored(channel) == 3
        monkeypatch.undo()


async def test_a_failed_sync_refuses_each_of_them(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch, taken: Taken
) -> None:
    async with broker() as (_, channel):
        assert await codes(channel, send()) == [ResponseCode.SUCCESS]

        def fail(_fd: int) -> None:
            raise OSError(5, os.strerror(5))

        with monkeypatch.context() as patch:
            replace_sync(patch, fail)
            assert await codes(channel, *(send() for _ in range(5))) == [ResponseCode.SERVICE_NOT_AVAILABLE] * 5
        assert taken.last_count in (5, -1)
        assert await codes(channel, send(), send()) == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
        assert await stored(channel) == 1


async def test_a_slow_sync_is_told_to_each_of_them(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch, taken: Taken
) -> None:
    async with broker(syncFlushTimeout="300", flushIntervalCommitLog="20") as (_, channel):
        await codes(channel, send())
        released = Event()
        replace_sync(monkeypatch, lambda _fd: released.wait(10))
        answers = await asyncio.gather(*(channel.exchange(send(key=f"KEY{number}")) for number in range(4)))
        assert taken.last_count in (4, -1)
        for number, answer in enumerate(answers):
            assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
            assert (answer.ext["transactionId"], answer.ext["queueOffset"]) == (f"KEY{number}", str(number + 1))
        assert await stored(channel) == 1  # what is not flushed is not seen
        released.set()


async def test_each_of_them_counts_as_waiting(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch, taken: Taken
) -> None:
    async with broker(sendThreadPoolQueueCapacity="10") as (_, channel):
        await codes(channel, send())
        released = Event()
        replace_sync(monkeypatch, lambda _fd: released.wait(10))
        calls = [asyncio.create_task(channel.exchange(send())) for _ in range(15)]
        for call in islice(asyncio.as_completed(calls), 5):
            assert (await call).code == ResponseCode.SYSTEM_BUSY
        assert taken.last_count in (10, -1)
        released.set()
        answered = [(await call).code for call in calls]
        assert answered.count(ResponseCode.SUCCESS) == 10
        assert await codes(channel, *(send() for _ in range(10))) == [ResponseCode.SUCCESS] * 10


@pytest.mark.parametrize("by_a_stop", [False, True])
async def test_who_has_gone_is_not_answered_and_others_are(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch, taken: Taken, by_a_stop: bool
) -> None:
    async with broker() as (running, channel):
        await codes(channel, send())
        gone = await connect(running.address)
        released = Event()
        replace_sync(monkeypatch, lambda fd: (released.wait(10), os.fdatasync(fd)))
        lost = [asyncio.create_task(gone.exchange(send())) for _ in range(3)]
        await until(lambda: taken.durabilities[0].waiting == 3)
        gone.close()
        assert all(isinstance(answer, Exception) for answer in await asyncio.gather(*lost, return_exceptions=True))
        waiting = [asyncio.create_task(channel.exchange(send())) for _ in range(3)]
        await until(lambda: taken.durabilities[0].waiting == 6)
        if by_a_stop:
            stopping = asyncio.create_task(running.stop())
            await until(lambda: (timer := taken.durabilities[0]._timer) is not None and timer.cancelled())
        released.set()
        assert [(await call).code for call in waiting] == [ResponseCode.SUCCESS] * 3
        if by_a_stop:
            await stopping
        else:
            assert await stored(channel) == 7


@pytest.mark.parametrize("by_a_stop", [False, True])
async def test_slaves_that_have_a_part_of_them(broker: StartBroker, taken: Taken, by_a_stop: bool) -> None:
    """What they have is good, though all were to be answered together."""
    slave_timeout = "30000" if by_a_stop else "1000"
    async with broker(**TWO_BROKERS, slaveTimeout=slave_timeout, flushIntervalCommitLog="20") as (running, channel):
        assert await codes(channel, send(waits=False)) == [ResponseCode.SUCCESS]
        durability = taken.durabilities[0]
        before = durability._store.written_offset
        calls = [asyncio.create_task(channel.exchange(send())) for _ in range(6)]
        await until(lambda: durability.waiting == 6)
        assert taken.last_count in (6, -1)
        size = (durability._store.written_offset - before) // 6
        durability.replicated(before + size * 3 + size // 2)
        if by_a_stop:
            await running.stop()
        good, late = [ResponseCode.SUCCESS] * 3, [ResponseCode.FLUSH_SLAVE_TIMEOUT] * 3
        assert [(await call).code for call in calls] == good + late
        assert [(await call).ext["queueOffset"] for call in calls] == list("123456")
        assert durability.waiting == 0


async def test_too_few_replicas_refuse_each_of_them(broker: StartBroker, taken: Taken) -> None:
    async with broker(**TWO_BROKERS, minInSyncReplicas="2") as (_, channel):
        assert await codes(channel, send(waits=False)) == [ResponseCode.SUCCESS]
        assert await codes(channel, *(send() for _ in range(4))) == [ResponseCode.SYSTEM_ERROR] * 4
        assert taken.replies == []
        assert await stored(channel) == 1


@FLUSHES
async def test_what_was_good_is_checked_again_when_the_topic_changes(broker: StartBroker, flush: str) -> None:
    async with broker(flushDiskType=flush, autoCreateTopicEnable="false") as (_, channel):
        await channel.call(topic(4))
        for _ in range(3):
            assert await codes(channel, send(3), send(0)) == [ResponseCode.SUCCESS] * 2
        await channel.call(topic(2))
        assert await codes(channel, send(3), send(0)) == [ResponseCode.INVALID_PARAMETER, ResponseCode.SUCCESS]
        await channel.call(DeleteTopicInBroker("orders"))
        assert await codes(channel, send(0)) == [ResponseCode.TOPIC_NOT_EXIST]
        await channel.call(topic(1))
        assert await codes(channel, send(0), send(0)) == [ResponseCode.SUCCESS] * 2
        assert await stored(channel) == 2


@FLUSHES
async def test_each_is_answered_with_its_own_place_and_key(broker: StartBroker, flush: str) -> None:
    async with broker(flushDiskType=flush) as (_, channel):
        await channel.exchange(send())
        keys = [f"KEY{number}" for number in range(20)]
        answers = await asyncio.gather(*(channel.exchange(send(key=key)) for key in keys))
        assert [answer.ext["transactionId"] for answer in answers] == keys
        assert [int(answer.ext["queueOffset"]) for answer in answers] == list(range(1, 21))
        assert len({answer.ext["msgId"] for answer in answers}) == 20
