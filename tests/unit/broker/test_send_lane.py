"""The short cut of sends, where something comes in between. What it stores is tried in tests/property."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.conftest import StartBroker

from cometmq.net.channel import Channel
from cometmq.store.commit_log import CommitLog
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.requests.admin import CreateTopic, DeleteTopicInBroker
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply
from cometmq.wire.requests.send import SendMessageV2


def send(queue_id: int = 0, key: str = "7F000001") -> Command:
    properties = f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01A\x02"
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


async def test_what_was_good_is_checked_again_when_the_topic_changes(broker: StartBroker) -> None:
    async with broker(flushDiskType="ASYNC_FLUSH", autoCreateTopicEnable="false") as (_, channel):
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


async def test_each_is_answered_with_its_own_place_and_key(broker: StartBroker) -> None:
    async with broker(flushDiskType="ASYNC_FLUSH") as (_, channel):
        await channel.exchange(send())
        keys = [f"KEY{number}" for number in range(20)]
        answers = await asyncio.gather(*(channel.exchange(send(key=key)) for key in keys))
        assert [answer.ext["transactionId"] for answer in answers] == keys
        assert [int(answer.ext["queueOffset"]) for answer in answers] == list(range(1, 21))
        assert len({answer.ext["msgId"] for answer in answers}) == 20
