"""Heartbeats, members, checks of subscriptions and queries for single messages, over a real broker and real sockets."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest
from tests.conftest import StartBroker

from cometmq.model.subscription import SubscriptionData
from cometmq.net.channel import Channel
from cometmq.store.index import IndexService
from cometmq.wire import fastjson
from cometmq.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from cometmq.wire.bodies.members import decode_consumer_ids
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.message_id import parse_offset_id
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import GetTopicConfig
from cometmq.wire.requests.members import (
    CheckClientConfig,
    GetConsumerListByGroup,
    HeartBeat,
    HeartBeatReply,
    UnregisterClient,
)
from cometmq.wire.requests.query import QueryMessage, QueryMessageReply, ViewMessage
from cometmq.wire.requests.send import SendMessageReply, SendMessageV2

FOREVER_MS = 1 << 60


def heartbeat(client_id: str, *topics: str, group: str = "g", fingerprint: int = 0, without_sub: bool = False) -> bytes:
    consumer = ConsumerData(group, subscriptions=[SubscriptionData(topic, sub_version=1) for topic in topics])
    return HeartbeatData(client_id, ["p"], [consumer], fingerprint, without_sub).encode()


async def listener(address: str) -> tuple[Channel, asyncio.Queue[Command]]:
    """A connection that keeps what the broker asks of it."""
    asked: asyncio.Queue[Command] = asyncio.Queue(100)
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(
        lambda: Channel(lambda _, command: asked.put_nowait(command)), host, int(port)
    )
    return channel, asked


async def members(channel: Channel) -> list[str]:
    return decode_consumer_ids((await channel.call(GetConsumerListByGroup("g"))).body)


async def test_members_come_and_go_and_all_are_told(broker: StartBroker) -> None:
    async with broker() as (running, channel):
        first, told = await listener(running.address)
        await first.call(HeartBeat(), heartbeat("c1", "t"))
        await told.get()
        second, _ = await listener(running.address)
        await second.call(HeartBeat(), heartbeat("c2", "t"))
        notice = await told.get()
        assert (notice.code, notice.ext) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"})
        assert notice.is_one_way
        assert sorted(await members(channel)) == ["c1", "c2"]
        second.close()
        await told.get()
        assert await members(channel) == ["c1"]
        await first.call(UnregisterClient("c1", "p", "g"))
        answer = await channel.exchange(GetConsumerListByGroup("g").command())
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")
        first.close()


async def test_a_heartbeat_makes_the_retry_topic(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(HeartBeat(), heartbeat("c", "t"))
        shown = fastjson.loads((await channel.call(GetTopicConfig("%RETRY%g"))).body)
        assert (shown["readQueueNums"], shown["perm"]) == (1, 6)


async def test_a_heartbeat_of_a_bad_group_is_answered_and_makes_nothing(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(HeartBeat(), heartbeat("c", "t", group="../x"))
        assert (await channel.exchange(GetTopicConfig("%RETRY%../x").command())).code == ResponseCode.TOPIC_NOT_EXIST


async def test_fingerprints_of_version_2(broker: StartBroker) -> None:
    async with broker() as (_, channel):

        async def beat(body: bytes) -> bool:
            reply = HeartBeatReply.read((await channel.call(HeartBeat(), body)).ext)
            assert reply.is_support_heart_beat_v2
            return reply.is_sub_change

        assert await beat(heartbeat("c", "t", group="v1"))
        assert not await beat(heartbeat("c", "t", fingerprint=5))
        assert not await beat(heartbeat("c", fingerprint=5, without_sub=True))
        assert await beat(heartbeat("c", "t", fingerprint=6))


@pytest.mark.parametrize(
    "body",
    [b"", b"[1]", b"{nope", b"\xff\xfe", b'{"consumerDataSet":null}', b'{"consumerDataSet":[{}]}',
     b'{"producerDataSet":[{}]}', b'{"consumerDataSet":[1]}', b'{"heartbeatFingerprint":"x"}',
     b'{"consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","subVersion":1e300}]}]}'],
)  # fmt: skip
async def test_a_bad_heartbeat_is_refused(broker: StartBroker, body: bytes) -> None:
    async with broker() as (_, channel):
        assert (await channel.exchange(HeartBeat().command(body))).code == ResponseCode.SYSTEM_ERROR
        assert (await channel.exchange(GetConsumerListByGroup("g").command())).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("body", [b"", b"{}", b'{"subscriptionData":{"topic":"t","subString":"A"}}'])
async def test_tag_subscriptions_are_fine(broker: StartBroker, body: bytes) -> None:
    async with broker() as (_, channel):
        await channel.call(CheckClientConfig(), body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"subscriptionData":{"subString":"a>1","expressionType":"SQL92"}}', "filter message by SQL92"),
        (b'{"subscriptionData":7}', "cannot be read"),
        (b"[1]", "cannot be read"),
        (b"{nope", "not JSON"),
    ],
)
async def test_other_subscriptions_are_refused(broker: StartBroker, body: bytes, why: str) -> None:
    async with broker() as (_, channel):
        answer = await channel.exchange(CheckClientConfig().command(body))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert why in (answer.remark or "")


# --- single messages


async def send(channel: Channel, body: bytes, properties: str) -> SendMessageReply:
    request = SendMessageV2("p", "orders", "TBW102", 4, 0, 0, 1, 0, properties)
    return SendMessageReply.read((await channel.call(request, body)).ext)


def query(key: str, count: int = 32, **fields: object) -> QueryMessage:
    return QueryMessage(count, 0, FOREVER_MS, "orders", key, **fields)  # type: ignore[arg-type]


async def test_messages_are_found_by_key_unique_key_and_id(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        for number in range(3):
            properties = f"KEYS\x01all k{number}\x02UNIQ_KEY\x01U{number}\x02TAGS\x01T\x02"
            sent = await send(channel, b"%d" % number, properties)

        async def bodies(request: QueryMessage) -> list[bytes]:
            answer = await channel.call(request)
            assert QueryMessageReply.read(answer.ext).index_last_update_timestamp > 0
            return [bytes(record.body) for record in decode_records(answer.body, check_crc=True)]

        assert await bodies(query("all")) == [b"0", b"1", b"2"]
        assert await bodies(query("k1")) == [b"1"]
        assert await bodies(query("U2", unique_key=True, count=0)) == [b"2"]
        assert await bodies(query("T", index_type="T")) == [b"0", b"1", b"2"]
        _, offset = parse_offset_id(sent.msg_id)
        (record,) = decode_records((await channel.call(ViewMessage(offset))).body, check_crc=True)
        assert bytes(record.body) == b"2"


@pytest.mark.parametrize(
    "request_",
    [query("absent"), query("k", count=0), QueryMessage(1, 5, 1, "orders", "k"),
     QueryMessage(32, 0, FOREVER_MS)],
)  # fmt: skip
async def test_nothing_is_found(broker: StartBroker, request_: QueryMessage) -> None:
    async with broker() as (_, channel):
        await send(channel, b"x", "KEYS\x01k\x02")
        answer = await channel.exchange(request_.command())
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert answer.remark == "can not find message, maybe time range not correct"
        assert QueryMessageReply.read(answer.ext) == QueryMessageReply(0, 0)


async def test_a_negative_count_is_refused(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        assert (await channel.exchange(query("k", count=-1).command())).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("offset", [-1, 1, 1 << 19, 1 << 62])
async def test_an_offset_at_which_no_message_stands(broker: StartBroker, offset: int) -> None:
    async with broker() as (_, channel):
        await send(channel, b"x", "")
        answer = await channel.exchange(ViewMessage(offset).command())
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            f"can not find message by the offset, {offset}",
        )


async def test_a_long_search_stops_nobody(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    search, others_served = IndexService.search, Event()

    def long_search(index: IndexService, *asked: Any) -> list[int]:
        assert others_served.wait(5)
        return search(index, *asked)

    monkeypatch.setattr(IndexService, "search", long_search)
    async with broker() as (_, channel):
        await send(channel, b"found", "KEYS\x01k\x02")
        query = QueryMessage(topic="orders", key="k", max_num=1, begin_timestamp=0, end_timestamp=1 << 62)
        searching = asyncio.create_task(channel.call(query, timeout_ms=10_000))
        await send(channel, b"served meanwhile", "")
        others_served.set()
        assert b"found" in bytes((await searching).body)
