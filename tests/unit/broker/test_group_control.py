"""Groups that are moved, forbidden, or ahead of their heartbeat, over a real broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.test_client_requests import heartbeat, listener
from tests.unit.broker.test_send_and_pull import pull, pulled, send

from cometmq.errors import PeerRefused
from cometmq.net.channel import Channel
from cometmq.wire import fastjson
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.requests.admin import UpdateGroupForbidden
from cometmq.wire.requests.consume import (
    OffsetReply,
    PullMessageReply,
    QueryConsumerOffset,
    ResetOffset,
    UpdateConsumerOffset,
)
from cometmq.wire.requests.members import HeartBeat

GROUP, TOPIC = "consumers", "orders"


async def stored(channel: Channel, count: int) -> None:
    for number in range(count):
        await channel.call(send(), b"%d" % number)
    while len(await pulled(channel)) < count:
        pass


async def committed(channel: Channel) -> int:
    return OffsetReply.read((await channel.call(QueryConsumerOffset(TOPIC, 0, GROUP))).ext).offset


async def moved(channel: Channel, **fields: Any) -> int | None:
    """Where a pull is sent; None if it is not."""
    answer = await channel.exchange(pull(**fields).command())
    if answer.code == ResponseCode.PULL_OFFSET_MOVED:
        return PullMessageReply.read(answer.ext).next_begin_offset
    return None


async def test_a_group_is_moved_once(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await stored(channel, 5)
        await channel.call(ResetOffset(TOPIC, 0, True, GROUP, 0, 2))
        await channel.call(UpdateConsumerOffset(TOPIC, GROUP, 0, 5))  # from before
        assert await committed(channel) == 2
        assert await moved(channel, offset=5, sys_flag=5, commit_offset=5) == 2
        assert await committed(channel) == 2
        assert await moved(channel, offset=2) is None
        await channel.call(UpdateConsumerOffset(TOPIC, GROUP, 0, 3))
        assert await committed(channel) == 3


async def test_a_waiting_pull_learns_of_it_at_once(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await stored(channel, 5)
        other = asyncio.create_task(moved(channel, offset=5, sys_flag=6, consumer_group="others"))
        waiting = asyncio.create_task(moved(channel, offset=5, sys_flag=6))
        await channel.call(ResetOffset(TOPIC, 0, True, GROUP, 0, 1))
        assert await waiting == 1
        assert not other.done()
        other.cancel()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ResetOffset("absent", 0, True, GROUP), ResponseCode.TOPIC_NOT_EXIST),
        (ResetOffset(TOPIC, 0, True, "absent"), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        (ResetOffset(TOPIC, 0, True, GROUP, 0, 99), ResponseCode.SYSTEM_ERROR),
        (ResetOffset(TOPIC, 0, True, GROUP, 0, -7), ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_move_to_nowhere_is_refused(broker: StartBroker, request_: ResetOffset, code: ResponseCode) -> None:
    async with broker() as (_, channel):
        await stored(channel, 1)
        assert (await channel.exchange(request_.command())).code == code
        assert await committed(channel) == 0  # a young queue


async def test_clients_move_themselves_where_the_broker_does_not(broker: StartBroker) -> None:
    async with broker(useServerSideResetOffset="false", defaultTopicQueueNums="1") as (running, channel):
        await channel.call(send(topic="single", default_topic_queue_nums=1), b"x")
        reset = ResetOffset("single", 0, True, "g")
        with pytest.raises(PeerRefused, match="committed nothing"):
            await channel.call(reset)
        member, told = await listener(running.address)
        await member.call(HeartBeat(), heartbeat("c", "single"))
        await told.get()
        await channel.call(UpdateConsumerOffset("single", "g", 0, 1))
        await channel.call(reset)
        notice = await told.get()
        assert notice.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        assert bytes(notice.body) == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"single"}:0}}'
        member.close()
        while (await channel.exchange(reset.command())).code != ResponseCode.CONSUMER_NOT_ONLINE:
            pass


async def test_a_forbidden_group_reads_nothing_even_after_a_restart(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await stored(channel, 1)
        await channel.call(HeartBeat(), heartbeat("c", TOPIC, group=GROUP))
        assert (await channel.exchange(pull(sys_flag=0).command())).code == ResponseCode.SUCCESS
        answer = await channel.call(UpdateGroupForbidden(GROUP, TOPIC, False))
        assert fastjson.loads(answer.body) == {"group": GROUP, "readable": False, "topic": TOPIC}
    async with broker() as (_, channel):
        await channel.call(HeartBeat(), heartbeat("c", TOPIC, group=GROUP))
        answer = await channel.exchange(pull(sys_flag=0).command())
        assert (answer.code, answer.ext["forbiddenType"]) == (ResponseCode.NO_PERMISSION, "5")
        await channel.call(UpdateGroupForbidden(GROUP, TOPIC, True))
        assert (await channel.exchange(pull(sys_flag=0).command())).code == ResponseCode.SUCCESS


async def test_a_pull_ahead_of_its_heartbeat_gets_everything(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await stored(channel, 2)
        await channel.call(HeartBeat(), heartbeat("c", TOPIC, group=GROUP))
        assert (await channel.exchange(pull(sys_flag=0, sub_version=9).command())).code == ResponseCode.SUCCESS
        sql = pull(sys_flag=0, sub_version=9, expression_type="SQL92")
        assert (await channel.exchange(sql.command())).code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_pull_consumers_can_be_rejected(broker: StartBroker) -> None:
    async with broker(rejectPullConsumerEnable="true") as (_, channel):
        await channel.call(send(), b"x")
        answer = await channel.exchange(pull().command())
        assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        assert (await channel.exchange(pull(consumer_group="TOOLS_CONSUMER").command())).code == ResponseCode.SUCCESS
        await channel.call(HeartBeat(), heartbeat("c", TOPIC, group=GROUP))
        assert (await channel.exchange(pull().command())).code == ResponseCode.SUCCESS
