"""What operators ask about consumption, over a real broker and real sockets."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.test_filters import by_sql, sql92
from tests.unit.broker.test_send_and_pull import pull, send

from cometmq.broker.handlers import tracking
from cometmq.errors import PeerRefused
from cometmq.model.subscription import SubscriptionData
from cometmq.net.channel import Channel
from cometmq.wire import fastjson
from cometmq.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.admin import CreateGroup
from cometmq.wire.requests.consume import UpdateConsumerOffset
from cometmq.wire.requests.members import HeartBeat
from cometmq.wire.requests.tracking import QueryConsumeQueue, QueryConsumeTimeSpan, QueryTopicConsumeByWho
from cometmq.wire.schema import Header


async def ask(channel: Channel, request: Header) -> dict[str, Any]:
    found: dict[str, Any] = fastjson.loads((await channel.call(request)).body)
    return found


async def subscribe(channel: Channel, group: str, subscription: SubscriptionData) -> None:
    beat = HeartbeatData("client", [], [ConsumerData(group, subscriptions=[subscription])])
    await channel.call(HeartBeat(), beat.encode())


async def commit(channel: Channel, group: str, offset: int) -> None:
    await channel.call(CreateGroup(), fastjson.dumps({"groupName": group}))
    await channel.call(UpdateConsumerOffset(topic="orders", consumer_group=group, queue_id=0, commit_offset=offset))


async def test_who_consumes_a_topic(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"1")
        assert await ask(channel, QueryTopicConsumeByWho("orders")) == {"groupList": []}
        await subscribe(channel, "here", SubscriptionData("orders", sub_version=1))
        await commit(channel, "gone", 1)
        assert await ask(channel, QueryTopicConsumeByWho("orders")) == {"groupList": ["gone", "here"]}
        assert await ask(channel, QueryTopicConsumeByWho("order")) == {"groupList": []}


async def test_how_late_a_group_is(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        before_ms = int(time.time() * 1000)
        for number in range(3):
            await channel.call(send(), b"%d" % number)
        await commit(channel, "behind", 1)
        await commit(channel, "through", 3)

        async def span(group: str) -> dict[str, Any]:
            spans = (await ask(channel, QueryConsumeTimeSpan("orders", group)))["consumeTimeSpanSet"]
            assert [one["messageQueue"]["queueId"] for one in spans] == list(range(len(spans)))
            assert all(one["minTimeStamp"] == one["maxTimeStamp"] == -1 for one in spans[1:])
            found: dict[str, Any] = spans[0]
            return found

        behind = await span("behind")
        assert before_ms <= behind["minTimeStamp"] == behind["consumeTimeStamp"] <= behind["maxTimeStamp"]
        assert 0 <= behind["delayTime"] <= int(time.time() * 1000) - before_ms
        whole_s, ms = divmod(behind["minTimeStamp"], 1000)
        assert behind["minTimeStampStr"] == f"{time.strftime('%Y-%m-%d#%H:%M:%S', time.localtime(whole_s))}:{ms:03}"
        through = await span("through")
        assert (through["consumeTimeStamp"], through["delayTime"]) == (through["maxTimeStamp"], 0)
        with pytest.raises(PeerRefused, match=r"topic\[nothing\] not exist") as refused:
            await channel.call(QueryConsumeTimeSpan("nothing", "behind"))
        assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


async def test_units_of_a_queue(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker() as (_, channel):
        for number in range(5):
            await channel.call(send(properties=f"TAGS\x01{number}\x02"), b"%d" % number)
        found = await ask(channel, QueryConsumeQueue("orders", 0, 1, 3))
        assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 5)
        assert [unit["tagsCode"] for unit in found["queueData"]] == [ord("1"), ord("2"), ord("3")]
        places = [unit["physicOffset"] for unit in found["queueData"]]
        assert places[1] == places[0] + found["queueData"][0]["physicSize"]
        monkeypatch.setattr(tracking, "UNITS_MAX", 2)
        assert len((await ask(channel, QueryConsumeQueue("orders", 0, 0, 2**31 - 1)))["queueData"]) == 2


@pytest.mark.parametrize("index", [-1, 1, 2**62])
async def test_units_that_are_not_there(broker: StartBroker, index: int) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"1")
        answer = await channel.call(QueryConsumeQueue("orders", 0, index, 1))
        assert answer.remark == f"Index {index} of 0@orders is not exist!"
        assert not answer.body
        for nowhere in (QueryConsumeQueue("orders", 77, 0, 1), QueryConsumeQueue(None, 0, 0, 1)):
            with pytest.raises(PeerRefused, match="is not exist"):
                await channel.call(nowhere)


async def test_what_a_group_wants_of_a_queue(broker: StartBroker) -> None:
    async with broker(enablePropertyFilter="true") as (_, channel):
        await channel.call(send(properties="a\x019\x02"), b"1")
        ask_for = QueryConsumeQueue("orders", 0, 0, 1, "g")
        assert (await ask(channel, ask_for))["filterData"] == "g@orders is not online!"
        await subscribe(channel, "g", sql92("a > 5"))
        found = await ask(channel, ask_for)
        assert found["subscriptionData"]["subString"] == "a > 5"
        assert fastjson.loads(found["filterData"].encode())["expression"] == "a > 5"
        assert (await channel.call(pull(**by_sql("a > 5")))).code == ResponseCode.SUCCESS
