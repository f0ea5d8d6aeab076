"""Messages sent back by consumers, sent to retry topics by clients, and those that are dead."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import StartBroker

from cometmq.errors import PeerRefused
from cometmq.model import properties
from cometmq.model.names import group_of_retry
from cometmq.net.channel import Channel
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import Record, decode_records, pack_host
from cometmq.wire.requests.admin import CreateGroup, CreateTopic, GetAllTopicConfig
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.delay import ConsumerSendMsgBack
from cometmq.wire.requests.members import LockBatchMq
from cometmq.wire.requests.send import SendMessageReply, SendMessageV2

FAST = {"messageDelayLevel": "1s 1s 1s 1s 1s", "flushDiskType": "ASYNC_FLUSH"}
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


async def send(channel: Channel, topic: str = "orders", found: dict[str, str] | None = None, **more: Any) -> Any:
    text = properties.render({"TAGS": "paid", **(found or {})})
    request = SendMessageV2("producers", topic, "TBW102", 4, 0, 0, 1_234, 7, text, **more)
    return SendMessageReply.read((await channel.call(request, body=b"order")).ext)


async def pull(channel: Channel, topic: str, queue_id: int = 0, offset: int = 0) -> list[Record]:
    request = PullMessage(
        consumer_group="c", topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=32, sys_flag=6,
        commit_offset=0, suspend_timeout_millis=5_000, sub_version=0, subscription="*",
    )  # fmt: skip
    return list(decode_records((await channel.call(request, timeout_ms=10_000)).body))


async def back(channel: Channel, record: Record, level: int = 0, **more: Any) -> None:
    await channel.call(ConsumerSendMsgBack("g", record.physical_offset, level, **more))


async def make_group(channel: Channel, **fields: Any) -> None:
    body = fastjson.dumps({"groupName": "g", **fields})
    await channel.call(CreateGroup(), body=body)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_back_and_back_again_and_dead(broker: StartBroker, flush: str) -> None:
    async with broker(**FAST | {"flushDiskType": flush}) as (running, channel):
        await send(channel)
        (first,) = await pull(channel, "orders")
        await back(channel, first)
        (second,) = await pull(channel, "%RETRY%g")
        ip, _, port = running.address.partition(":")
        origin = pack_host(ip, int(port)).hex().upper() + f"{first.physical_offset:016X}"
        kept = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": origin, "WAIT": "false", "TAGS": "paid"}
        rerouted = {"REAL_TOPIC": "%RETRY%g", "REAL_QID": "0", "DELAY": "3"}
        assert second.properties.items() >= (kept | rerouted).items()
        assert (second.body, second.flag, second.born_time_ms, second.reconsume_times) == (b"order", 7, 1_234, 1)

        await back(channel, second, max_reconsume_times=2)
        (third,) = await pull(channel, "%RETRY%g", offset=1)
        assert third.properties.items() >= (kept | {"DELAY": "4"}).items()
        assert third.reconsume_times == 2

        await back(channel, third, max_reconsume_times=2)
        (dead,) = await pull(channel, "%DLQ%g")
        assert dead.properties.items() >= (kept | {"DELAY": "0"}).items()
        assert properties.DELIVERED_MARK not in dead.properties
        assert dead.reconsume_times == 3
        topics = fastjson.loads((await channel.call(GetAllTopicConfig())).body)["topicConfigTable"]
        assert {name: topics[name]["perm"] for name in ("%RETRY%g", "%DLQ%g")} == {"%RETRY%g": 6, "%DLQ%g": 6}


async def test_the_consumer_chooses(broker: StartBroker) -> None:
    async with broker(**FAST) as (_, channel):
        await send(channel)
        (record,) = await pull(channel, "orders")
        await back(channel, record, level=2)
        assert len(await pull(channel, SCHEDULE, 1)) == 1
        await back(channel, record, level=99)
        assert len(await pull(channel, SCHEDULE, 4)) == 1
        await back(channel, record, level=-1)
        assert len(await pull(channel, "%DLQ%g")) == 1
        await back(channel, record, max_reconsume_times=0)
        assert len(await pull(channel, "%DLQ%g")) == 2
        await back(channel, record, max_reconsume_times=-1)
        assert len(await pull(channel, "%DLQ%g")) == 3


async def test_the_group_decides(broker: StartBroker) -> None:
    async with broker(**FAST) as (_, channel):
        await make_group(channel, retryMaxTimes=0)
        await send(channel)
        (record,) = await pull(channel, "orders")
        await back(channel, record)
        assert len(await pull(channel, "%DLQ%g")) == 1
        request = ConsumerSendMsgBack("g", record.physical_offset, 0, max_reconsume_times=5).command()
        request.version = 120  # 3.4.8 and before: the request's maximum does not count
        assert (await channel.exchange(request, timeout_ms=3_000)).code == 0
        assert len(await pull(channel, "%DLQ%g")) == 2
        await make_group(channel, retryQueueNums=0)
        await back(channel, record)
        assert (await channel.call(GetMaxOffset(topic=SCHEDULE, queue_id=2))).ext["offset"] == "0"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ConsumerSendMsgBack("g", 1 << 40, 0), ResponseCode.SYSTEM_ERROR),
        (ConsumerSendMsgBack("g", 1, 0), ResponseCode.SYSTEM_ERROR),
        (ConsumerSendMsgBack("g", -1, 0), ResponseCode.SYSTEM_ERROR),
        (ConsumerSendMsgBack("g", None, 0), ResponseCode.SYSTEM_ERROR),
        (ConsumerSendMsgBack("g", 0, None), ResponseCode.SYSTEM_ERROR),
        (ConsumerSendMsgBack("g/../x", 0, 0), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        (ConsumerSendMsgBack("", 0, 0), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_what_is_not_taken_back(broker: StartBroker, request_: ConsumerSendMsgBack, code: int) -> None:
    async with broker(**FAST) as (_, channel):
        await send(channel)
        with pytest.raises(PeerRefused) as refused:
            await channel.call(request_)
        assert refused.value.code == code
        for queue_id in range(5):
            assert (await channel.call(GetMaxOffset(topic=SCHEDULE, queue_id=queue_id))).ext["offset"] == "0"


async def test_what_still_waits_is_not_sent_back(broker: StartBroker) -> None:
    async with broker(**FAST | {"messageDelayLevel": "1h"}) as (_, channel):
        for found in ({"DELAY": "1"}, {"TIMER_DELAY_SEC": "600"}, {"TRAN_MSG": "true", "PGROUP": "p"}):
            reply = await send(channel, found=found)
            with pytest.raises(PeerRefused, match="still waits") as refused:
                await channel.call(ConsumerSendMsgBack("g", int(reply.msg_id[-16:], 16), -1))
            assert refused.value.code == ResponseCode.SYSTEM_ERROR


async def test_strange_groups_where_groups_are_not_made_by_use(broker: StartBroker) -> None:
    async with broker(**FAST, autoCreateSubscriptionGroup="false") as (_, channel):
        await send(channel)
        with pytest.raises(PeerRefused) as refused:
            await channel.call(ConsumerSendMsgBack("g", 0, 0))
        assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        with pytest.raises(PeerRefused) as refused:
            await send(channel, "%RETRY%g")
        assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_retry_topic_that_may_not_be_written(broker: StartBroker) -> None:
    async with broker(**FAST) as (_, channel):
        await send(channel)
        (record,) = await pull(channel, "orders")
        await channel.call(CreateTopic("%RETRY%g", 1, 1, 4, "SINGLE_TAG"))
        with pytest.raises(PeerRefused) as refused:
            await back(channel, record)
        assert refused.value.code == ResponseCode.NO_PERMISSION


async def test_sent_to_a_retry_topic_by_a_client(broker: StartBroker) -> None:
    async with broker(**FAST) as (_, channel):
        for times, maximum in ((2, 2), (3, 2), (17, None), (16, None), (0, -1)):
            await send(channel, "%RETRY%g", reconsume_times=times, max_reconsume_times=maximum)
        assert [record.reconsume_times for record in await pull(channel, "%RETRY%g")] == [2, 16]
        dead = await pull(channel, "%DLQ%g")
        assert [record.reconsume_times for record in dead] == [3, 17, 0]
        assert {record.properties["DELAY"] for record in dead} == {"-1"}


async def test_a_group_that_consumes_in_order(broker: StartBroker) -> None:
    async with broker(**FAST) as (_, channel):
        wanted = {
            "consumerGroup": "g",
            "clientId": "one",
            "mqSet": [{"brokerName": "b", "queueId": 0, "topic": "orders"}],
        }
        await channel.call(LockBatchMq(), body=fastjson.dumps(wanted))
        await send(channel, "%RETRY%g", reconsume_times=0)
        assert len(await pull(channel, "%DLQ%g")) == 1


@pytest.mark.parametrize(
    ("topic", "group"), [("%RETRY%g", "g"), ("%RETRY%g+t", "g"), ("%RETRY%g+t+u", "g+t+u"), ("%RETRY%g+", "g+")]
)
def test_group_of_a_retry_topic(topic: str, group: str) -> None:
    assert group_of_retry(topic) == group
