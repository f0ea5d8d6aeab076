"""Batches to a topic of `queue.type=BatchCQ`, through a real broker: stored as one record, refused where they lie."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from tests.conftest import StartBroker

from cometmq.broker.inner_batches import count_messages, plain_messages
from cometmq.errors import PeerRefused, RequestRefused
from cometmq.net.channel import Channel
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import ResponseCode, SerializeType
from cometmq.wire.record import Record, decode_record, decode_records, encode_record
from cometmq.wire.requests.admin import CreateTopic, DeleteTopicInBroker
from cometmq.wire.requests.consume import GetMaxOffset, GetMinOffset, PullMessage
from cometmq.wire.requests.send import SendBatchMessage, SendMessageV2

TOPIC = "batches"
THREE = encode_batch([(0, b"one", b"TAGS\x01a\x02"), (0, b"two", b""), (0, b"three", b"")])
INNER_BATCH, NEED_UNWRAP = 0x80, 0x40


async def create(channel: Channel, topic: str = TOPIC, attributes: str = "+queue.type=BatchCQ") -> None:
    request = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=2,
        write_queue_nums=2,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        attributes=attributes,
    )
    await channel.call(request)


def send(kind: type[Any], text: str = "UNIQ_KEY\x01U1\x02", topic: str = TOPIC, sys_flag: int = 0) -> Any:
    batch = kind is SendBatchMessage
    return kind("producers", topic, "TBW102", 4, 0, sys_flag, 1, 0, properties=text, batch=batch)


async def pulled(channel: Channel, offset: int = 0, topic: str = TOPIC) -> list[Record]:
    pull = PullMessage("consumers", topic, 0, offset, 32, 4, 0, 0, 0, subscription="*")
    return list(decode_records((await channel.call(pull)).body, check_crc=True))


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("form", list(SerializeType))
async def test_a_batch_is_stored_as_it_came(broker: StartBroker, flush: str, form: SerializeType) -> None:
    async with broker(flushDiskType=flush) as (_, channel):
        await create(channel)
        for base in (0, 3):
            command = send(SendBatchMessage).command(THREE)
            command.serialize = form
            answer = await channel.exchange(command)
            assert answer.code == ResponseCode.SUCCESS
            assert answer.ext["queueOffset"] == str(base)
            assert answer.ext["batchUniqId"] == answer.ext["transactionId"] == "U1"
            assert len(answer.ext["msgId"]) == 32
        records = await pulled(channel)
        assert [record.body for record in records] == [THREE, THREE]
        assert records[1].sys_flag == INNER_BATCH | NEED_UNWRAP
        assert records[1].properties == {
            "UNIQ_KEY": "U1",
            "CLUSTER": "DefaultCluster",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "INNER_NUM": "3",
            "INNER_BASE": "3",
        }
        assert (await channel.call(GetMaxOffset(TOPIC, 0))).ext["offset"] == "6"


async def test_without_a_unique_key_its_messages_are_stored_one_by_one(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await create(channel)
        answer = await channel.call(send(SendBatchMessage, ""), THREE)
        assert answer.ext["msgId"].count(",") == 2
        assert "batchUniqId" not in answer.ext
        assert [record.body for record in await pulled(channel)] == [b"one", b"two", b"three"]


async def test_single_messages_and_batches_share_the_offsets(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await create(channel)
        offsets = []
        for kind, body in (
            (SendMessageV2, b"x"),
            (SendBatchMessage, THREE),
            (SendMessageV2, b"y"),
            (SendMessageV2, b"z"),
        ):
            offsets.append((await channel.call(send(kind), body)).ext["queueOffset"])
        assert offsets == ["0", "1", "4", "5"]
        assert [record.body for record in await pulled(channel, 2)] == [THREE, b"y", b"z"]


async def test_a_producer_may_pack_the_body_itself(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await create(channel)
        for base in ("0", "2"):
            text = "UNIQ_KEY\x01U1\x02INNER_NUM\x012\x02INNER_BASE\x0177\x02"
            answer = await channel.call(send(SendMessageV2, text, sys_flag=INNER_BATCH), b"packed")
            assert answer.ext["queueOffset"] == base
            assert "batchUniqId" not in answer.ext
        assert [record.properties["INNER_BASE"] for record in await pulled(channel)] == ["0", "2"]


@pytest.mark.parametrize(
    ("kind", "topic", "text", "sys_flag"),
    [
        (SendMessageV2, TOPIC, "INNER_NUM\x012\x02", 0),
        (SendMessageV2, "plain", "INNER_NUM\x012\x02", 0),
        (SendMessageV2, "plain", "", INNER_BATCH),
        (SendMessageV2, "plain", "INNER_NUM\x012\x02", INNER_BATCH),
        (SendBatchMessage, "plain", "UNIQ_KEY\x01U\x02", INNER_BATCH),
        (SendBatchMessage, "plain", "INNER_NUM\x012\x02", 0),
        (SendBatchMessage, TOPIC, "UNIQ_KEY\x01U\x02DELAY\x013\x02", 0),
        (SendBatchMessage, TOPIC, f"UNIQ_KEY\x01U\x02LONG\x01{'x' * 32_700}\x02", 0),
    ],
)
async def test_what_calls_itself_a_batch_and_is_none_is_refused(
    broker: StartBroker, kind: type[Any], topic: str, text: str, sys_flag: int
) -> None:
    async with broker() as (_, channel):
        await create(channel)
        await create(channel, "plain", "")
        for _ in range(2):  # the second meets what the first left in memory
            with pytest.raises(PeerRefused) as refused:
                await channel.call(send(kind, text, topic, sys_flag), THREE)
            assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
        assert (await channel.call(GetMaxOffset(topic, 0))).ext["offset"] == "0"


async def test_a_batch_too_large_is_refused_with_its_key(broker: StartBroker) -> None:
    async with broker(maxMessageSize="100") as (_, channel):
        await create(channel)
        answer = await channel.exchange(send(SendBatchMessage).command(encode_batch([(0, b"x" * 100, b"")])))
        assert (answer.code, answer.ext["batchUniqId"]) == (ResponseCode.MESSAGE_ILLEGAL, "U1")


@pytest.mark.parametrize("number", ["many", "32768", "-32769", "2.5"])
async def test_a_number_that_is_none_fails(broker: StartBroker, number: str) -> None:
    async with broker() as (_, channel):
        await create(channel)
        with pytest.raises(PeerRefused) as refused:
            await channel.call(send(SendMessageV2, f"INNER_NUM\x01{number}\x02", sys_flag=INNER_BATCH), b"x")
        assert refused.value.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("body", [b"", b"abc", struct.pack(">i", 500) + bytes(30), struct.pack(">i", -5) + bytes(30)])
async def test_lengths_that_lie_store_nothing(broker: StartBroker, body: bytes) -> None:
    async with broker() as (_, channel):
        await create(channel)
        with pytest.raises(PeerRefused) as refused:
            await channel.call(send(SendBatchMessage), body)
        assert refused.value.code == ResponseCode.SYSTEM_ERROR
        assert (await channel.call(GetMinOffset(TOPIC, 0))).ext["offset"] == "-1"


def test_counting() -> None:
    assert count_messages(THREE) == 3
    assert count_messages(memoryview(struct.pack(">i", 4) * 32_767)) == 32_767
    for bad in (bytes(8), struct.pack(">i", 4) * 32_768, THREE[:-1], THREE + b"\0"):
        with pytest.raises(RequestRefused):
            count_messages(bad)


async def test_a_parked_pull_wakes_for_a_batch(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await create(channel)
        await channel.call(send(SendBatchMessage), THREE)
        parked = channel.exchange(
            PullMessage("consumers", TOPIC, 0, 3, 32, 4 | 2, 0, 10_000, 0, subscription="*").command(),
            timeout_ms=10_000,
        )
        waiting = asyncio.create_task(parked)
        await asyncio.sleep(0)
        await channel.call(send(SendBatchMessage), THREE)
        (record,) = decode_records((await waiting).body)
        assert record.queue_offset == 3


async def test_it_survives_the_broker(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await create(channel)
        await channel.call(send(SendBatchMessage), THREE)
    async with broker() as (_, channel):
        assert (await channel.call(send(SendBatchMessage), THREE)).ext["queueOffset"] == "3"
        assert len(await pulled(channel)) == 2


async def test_a_topic_made_again_as_a_plain_one(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await create(channel)
        await channel.call(send(SendBatchMessage), THREE)
        await channel.call(DeleteTopicInBroker(TOPIC))
        await create(channel, attributes="")
        answer = await channel.call(send(SendBatchMessage), THREE)
        assert (answer.ext["queueOffset"], answer.ext["msgId"].count(",")) == ("0", 2)
        assert [record.body for record in await pulled(channel)] == [b"one", b"two", b"three"]
        assert (await channel.call(GetMinOffset(TOPIC, 0))).ext["offset"] == "0"
    async with broker() as (_, channel):
        assert len(await pulled(channel)) == 3


def batch_record(sys_flag: int, body: bytes, text: str) -> Record:
    data = encode_record(
        topic=b"t", queue_id=0, flag=7, queue_offset=3, physical_offset=9, sys_flag=sys_flag, born_time_ms=1,
        born_host=bytes(8), store_time_ms=2, store_host=bytes(8), body=body, properties_data=text.encode(),
    )  # fmt: skip
    return decode_record(data)


def test_a_batch_as_plain_messages() -> None:
    opened = plain_messages(batch_record(INNER_BATCH | NEED_UNWRAP | 1 << 8, THREE, "INNER_NUM\x013\x02"))
    assert [(one.body, one.properties, one.sys_flag, one.flag) for one in opened] == [
        (b"one", {"TAGS": "a"}, 1 << 8, 0), (b"two", {}, 1 << 8, 0), (b"three", {}, 1 << 8, 0),
    ]  # fmt: skip
    (packed,) = plain_messages(batch_record(INNER_BATCH, b"anything", "INNER_NUM\x013\x02KEYS\x01k\x02"))
    assert (packed.body, packed.properties, packed.sys_flag) == (b"anything", {"KEYS": "k"}, 0)
    with pytest.raises(RequestRefused):
        plain_messages(batch_record(INNER_BATCH | NEED_UNWRAP, THREE[:-1], ""))
