"""Delay levels on a real broker: in, out, at the right time, and what may not go in."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import StartBroker

from cometmq.broker.delay.stage import DelayStage
from cometmq.broker.inner_messages import InnerMessage
from cometmq.errors import PeerRefused, RequestRefused, StoreError
from cometmq.model import properties
from cometmq.net.channel import Channel
from cometmq.wire import fastjson
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.delay import GetAllDelayOffset
from cometmq.wire.requests.send import SendBatchMessage, SendMessageReply, SendMessageV2

FAST = {"messageDelayLevel": "1s 2s 1h", "flushDiskType": "ASYNC_FLUSH"}


async def send(channel: Channel, level: object, topic: str = "orders", **more: str) -> Any:
    found = properties.render({properties.DELAY: str(level), "TAGS": "paid", **more})
    request = SendMessageV2("producers", topic, "TBW102", 4, 1, 0, time.time_ns() // 1_000_000, 7, found)
    return await channel.call(request, body=b"later")


async def pull(channel: Channel, topic: str, queue_id: int, offset: int = 0) -> list[Record]:
    request = PullMessage(
        consumer_group="c", topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=32, sys_flag=6,
        commit_offset=0, suspend_timeout_millis=5_000, sub_version=0, subscription="*",
    )  # fmt: skip
    return list(decode_records((await channel.call(request, timeout_ms=10_000)).body))


async def levels(channel: Channel) -> dict[str, int]:
    table: dict[str, int] = fastjson.loads((await channel.call(GetAllDelayOffset())).body)["offsetTable"]
    return table


async def test_a_delayed_message_waits_and_comes_in_time(broker: StartBroker) -> None:
    async with broker(**FAST) as (_, channel):
        reply = SendMessageReply.read((await send(channel, 1)).ext)
        assert (reply.queue_id, reply.queue_offset) == (1, 0)
        (waiting,) = await pull(channel, "SCHEDULE_TOPIC_XXXX", 0)
        assert waiting.properties.items() >= {"REAL_TOPIC": "orders", "REAL_QID": "1", "DELAY": "1"}.items()
        assert await levels(channel) == {"1": 0}
        (message,) = await pull(channel, "orders", 1)
        late_ms = message.store_time_ms - waiting.store_time_ms - 1_000
        assert 0 <= late_ms < 1_000
        mark = {properties.DELIVERED_MARK: f"delay:0:0:{waiting.physical_offset}"}
        assert message.properties == waiting.properties | mark
        assert (message.body, message.flag, message.born_time_ms) == (b"later", 7, waiting.born_time_ms)
        assert await levels(channel) == {"1": 1}


async def test_levels_outside_the_list(broker: StartBroker) -> None:
    async with broker(**FAST) as (_, channel):
        for level, kept, queue_id in ((99, "3", 2), ("+2", "+2", 1), (2_147_483_647, "3", 2)):
            await send(channel, level)
            assert (await pull(channel, "SCHEDULE_TOPIC_XXXX", queue_id))[-1].properties["DELAY"] == kept
        for level in (0, -1, -2_147_483_648):
            await send(channel, level)
        assert [record.properties["DELAY"] for record in await pull(channel, "orders", 1)] == ["0", "-1", "-2147483648"]


@pytest.mark.parametrize("level", ["soon", "1.5", "2147483648", "1_0", " 1"])
async def test_what_is_no_level_is_refused(broker: StartBroker, level: str) -> None:
    async with broker(**FAST) as (_, channel):
        await send(channel, 0)
        with pytest.raises(PeerRefused, match="no delay level") as refused:
            await send(channel, level)
        assert refused.value.code == ResponseCode.SYSTEM_ERROR
        assert (await channel.call(GetMaxOffset(topic="orders", queue_id=1))).ext["offset"] == "1"


@pytest.mark.parametrize(("sys_flag", "waits"), [(0, True), (0x4, False), (0x8, True), (0xC, False)])
def test_half_messages_stay_where_they_are(sys_flag: int, waits: bool) -> None:
    message = InnerMessage("T", 3, b"", {properties.DELAY: "2", "TIMER_DELAY_SEC": "9"}, sys_flag=sys_flag)
    DelayStage(18)(message)
    assert message.topic == ("SCHEDULE_TOPIC_XXXX" if waits else "T")
    assert ("TIMER_DELAY_SEC" in message.properties) is not waits


def test_no_level_says_why() -> None:
    with pytest.raises(RequestRefused, match="send a number"):
        DelayStage(18)(InnerMessage("T", 3, b"", {properties.DELAY: "x"}))


async def test_producers_cannot_send_marks(broker: StartBroker) -> None:
    async with broker(**FAST) as (_, channel):
        await send(channel, 0, __COMET_DELIVERED="delay:0:0:0")
        forged = properties.render({"k": "v", properties.DELIVERED_MARK: "delay:0:0:0"})
        batch = encode_batch([(0, b"one", forged.encode()), (0, b"two", b"k\x01v")])
        head = ("producers", "orders", "TBW102", 4, 1, 0, 1, 0, "")
        await channel.call(SendBatchMessage(*head, batch=True), body=batch)
        single, *batched = [record.properties for record in await pull(channel, "orders", 1)]
        assert properties.DELIVERED_MARK not in single
        assert batched == [{"k": "v"}, {"k": "v"}]


async def test_a_stop_in_between(broker: StartBroker, tmp_path: Path) -> None:
    async with broker(**FAST) as (_, channel):
        await send(channel, 1)
        assert len(await pull(channel, "orders", 1)) == 1
        await send(channel, 2)
        await send(channel, 3)
    saved = json.loads((tmp_path / "store/config/delayOffset.json").read_text())
    assert saved["offsetTable"] == {"1": 1, "2": 0, "3": 0}
    async with broker(**FAST) as (_, channel):
        (message,) = await pull(channel, "orders", 1, offset=1)
        assert message.properties["DELAY"] == "2"
        assert await levels(channel) == {"1": 1, "2": 1, "3": 0}


@pytest.mark.parametrize("offset", [5, 10**12])
async def test_a_table_that_is_ahead_of_its_store(broker: StartBroker, tmp_path: Path, offset: int) -> None:
    async with broker(**FAST) as (_, channel):
        await send(channel, 1)
        await pull(channel, "orders", 1)
    path = tmp_path / "store/config/delayOffset.json"
    path.write_text(f'{{"offsetTable":{{1:{offset},7:3}}}}')  # as Java writes keys, and a level that is not there
    async with broker(**FAST) as (_, channel):
        assert await levels(channel) == {"1": 1, "7": 3}


async def test_a_table_that_is_none(broker: StartBroker, tmp_path: Path) -> None:
    async with broker(**FAST):
        pass
    path = tmp_path / "store/config/delayOffset.json"
    path.write_text('{"offsetTable":[1]}')
    with pytest.raises(StoreError, match=r"delayOffset\.json is JSON, but not the table"):
        async with broker(**FAST):
            pass


async def test_levels_that_cannot_be_read(broker: StartBroker) -> None:
    with pytest.raises(StoreError, match="messageDelayLevel"):
        async with broker(messageDelayLevel="1s soon"):
            pass
