"""Topics, groups and offsets by request, over a real broker and a real socket."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import StartBroker

from cometmq.net.channel import Channel
from cometmq.wire import fastjson
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.requests.admin import (
    AllGroupConfigReply,
    AllTopicConfigReply,
    CleanUnusedTopic,
    CreateGroup,
    CreateGroupList,
    CreateTopic,
    CreateTopicList,
    DeleteGroup,
    DeleteTopicInBroker,
    GetAllGroupConfig,
    GetAllTopicConfig,
    GetGroupConfig,
    GetTopicConfig,
)
from cometmq.wire.requests.consume import (
    EarliestTimeReply,
    GetAllConsumerOffset,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.wire.requests.send import SendMessageV2
from cometmq.wire.schema import Header


def create(topic: str = "orders", **fields: Any) -> CreateTopic:
    given = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_filter_type": "SINGLE_TAG"}
    return CreateTopic(topic, **given | fields)


async def ask(channel: Channel, request: Header, body: bytes = b"") -> Command:
    return await channel.exchange(request.command(body))


async def table(channel: Channel, request: Header) -> Any:
    return fastjson.loads((await channel.call(request)).body)


async def send(channel: Channel, topic: str = "orders") -> None:
    await channel.call(SendMessageV2("p", topic, "TBW102", 4, 0, 0, 1, 0, "KEYS\x01k\x02"), b"body")


# --- topics


async def test_a_topic_is_made_shown_changed_and_deleted(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(create(attributes="+message.type=FIFO"))
        shown = await table(channel, GetTopicConfig("orders"))
        assert (shown["readQueueNums"], shown["attributes"]) == (4, {"message.type": "FIFO"})
        await channel.call(create(read_queue_nums=8))
        shown = await table(channel, GetTopicConfig("orders"))
        assert (shown["readQueueNums"], shown["attributes"]) == (8, {"message.type": "FIFO"})
        await channel.call(DeleteTopicInBroker("orders"))
        assert (await ask(channel, GetTopicConfig("orders"))).code == ResponseCode.TOPIC_NOT_EXIST


async def test_an_answered_change_is_on_disk(broker: StartBroker, tmp_path: Path) -> None:
    async with broker() as (_, channel):
        await channel.call(create("kept"))
        await channel.call(CreateGroup(), b'{"groupName":"kept"}')
        config = tmp_path / "store" / "config"
        assert b'"kept"' in (config / "topics.json").read_bytes()
        assert b'"kept"' in (config / "subscriptionGroup.json").read_bytes()
        await channel.call(DeleteTopicInBroker("kept"))
        assert b'"kept"' not in (config / "topics.json").read_bytes()


async def test_a_topic_made_by_a_send_is_on_disk_when_the_send_is_answered(broker: StartBroker, tmp_path: Path) -> None:
    async with broker() as (_, channel):
        await send(channel, "fresh")
        assert b'"fresh"' in (tmp_path / "store" / "config" / "topics.json").read_bytes()


async def test_a_deleted_topic_begins_anew(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        for _ in range(3):
            await send(channel)
        await channel.call(CreateGroup(), b'{"groupName":"g"}')
        await channel.call(UpdateConsumerOffset("orders", "g", 0, 3))
        await channel.call(DeleteTopicInBroker("orders"))
        await send(channel)
        assert OffsetReply.read((await channel.call(GetMaxOffset("orders", 0))).ext).offset == 1
        assert (await table(channel, GetAllConsumerOffset()))["offsetTable"] == {}


async def test_what_was_answered_as_deleted_stays_so_after_a_kill(broker: StartBroker, tmp_path: Path) -> None:
    async with broker() as (_, channel):
        await send(channel)
        await send(channel, "kept")
        await channel.call(DeleteTopicInBroker("orders"))
        killed = shutil.copytree(tmp_path / "store", tmp_path / "killed")
    async with broker(storePathRootDir=str(killed)) as (_, channel):
        assert not (killed / "consumequeue" / "orders").exists()
        await send(channel)
        for topic in ("orders", "kept"):
            assert OffsetReply.read((await channel.call(GetMaxOffset(topic, 0))).ext).offset == 1


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_a_send_in_the_same_breath_does_not_bring_a_deleted_topic_back(
    broker: StartBroker, tmp_path: Path, flush: str
) -> None:
    async with broker(flushDiskType=flush) as (_, channel):
        for _ in range(3):
            await send(channel)
        await asyncio.gather(send(channel), channel.call(DeleteTopicInBroker("orders")))
        assert not (tmp_path / "store" / "consumequeue" / "orders").exists()
        killed = shutil.copytree(tmp_path / "store", tmp_path / "killed")
        await send(channel)
        assert OffsetReply.read((await channel.call(GetMaxOffset("orders", 0))).ext).offset == 1
    async with broker(storePathRootDir=str(killed)) as (_, channel):
        assert not (killed / "consumequeue" / "orders").exists()
        await send(channel)
        assert OffsetReply.read((await channel.call(GetMaxOffset("orders", 0))).ext).offset == 1


async def test_queues_without_a_topic_are_cleaned_and_stay_away_after_a_kill(
    broker: StartBroker, tmp_path: Path
) -> None:
    async with broker() as (_, channel):
        await send(channel)
        await send(channel, "kept")
    for saved in (tmp_path / "store" / "config").glob("topics.json*"):
        table = fastjson.loads(saved.read_bytes())
        table["topicConfigTable"].pop("orders", None)
        saved.write_bytes(fastjson.dumps(table))
    async with broker() as (_, channel):
        await channel.call(CleanUnusedTopic())
        killed = shutil.copytree(tmp_path / "store", tmp_path / "killed")
    async with broker(storePathRootDir=str(killed)):
        assert [folder.name for folder in (killed / "consumequeue").iterdir()] == ["kept"]


async def test_a_topic_deleted_and_made_again_in_one_breath_is_there(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(create())
        await asyncio.gather(channel.call(DeleteTopicInBroker("orders")), channel.call(create()))
        assert (await ask(channel, GetTopicConfig("orders"))).code == ResponseCode.SUCCESS


async def test_deleting_a_topic_takes_the_retry_topics_of_its_groups(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(create())
        await channel.call(create("%RETRY%g_orders"))
        await channel.call(CreateGroup(), b'{"groupName":"g"}')
        await channel.call(UpdateConsumerOffset("orders", "g", 0, 3))
        await channel.call(DeleteTopicInBroker("orders"))
        assert "%RETRY%g_orders" not in (await table(channel, GetAllTopicConfig()))["topicConfigTable"]


@pytest.mark.parametrize(
    ("request_", "code", "why"),
    [
        (create(""), ResponseCode.INVALID_PARAMETER, "The specified topic is blank."),
        (create("../x"), ResponseCode.INVALID_PARAMETER, "contains illegal characters"),
        (create("x" * 128), ResponseCode.INVALID_PARAMETER, "longer than topic max length"),
        (create("TBW102"), ResponseCode.INVALID_PARAMETER, "The topic[TBW102] is conflict with system topic."),
        (create("broker-a"), ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        (create(topic_filter_type="x"), ResponseCode.SYSTEM_ERROR, "topicFilterType = [x] value invalid"),
        (create(topic_filter_type=None), ResponseCode.SYSTEM_ERROR, "topicFilterType = [null] value invalid"),
        (create(attributes="+message.type=MIXED"), ResponseCode.INVALID_PARAMETER, "MIXED message type is not"),
        (create(attributes="+nope=1"), ResponseCode.SYSTEM_ERROR, "unsupported key: nope"),
        (DeleteTopicInBroker(None), ResponseCode.INVALID_PARAMETER, "The specified topic is blank."),
        (DeleteTopicInBroker(" "), ResponseCode.INVALID_PARAMETER, "The specified topic is blank."),
        (DeleteTopicInBroker("TBW102"), ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        (GetTopicConfig("absent"), ResponseCode.TOPIC_NOT_EXIST, "No topic in this broker. topic: absent"),
        (GetAllTopicConfig(max_topic_num=2), ResponseCode.SYSTEM_ERROR, "a page of a table"),
    ],
)
async def test_refused(broker: StartBroker, request_: Header, code: int, why: str) -> None:
    async with broker() as (_, channel):
        answer = await ask(channel, request_)
        assert answer.code == code
        assert why in (answer.remark or "")


async def test_a_list_of_topics(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        body = b'{"topicConfigList":[{"topicName":"a"},{"topicName":"b","readQueueNums":null,"order":"true"}]}'
        await channel.call(CreateTopicList(), body)
        assert (await table(channel, GetTopicConfig("a")))["readQueueNums"] == 16
        shown = await table(channel, GetTopicConfig("b"))
        assert (shown["readQueueNums"], shown["order"]) == (0, True)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"{nope", b"\xff", b'{"topicConfigList":[1]}', b'{"topicConfigList":[{"topicName":"a/b"}]}',
     b'{"topicConfigList":[{"topicName":"a"},{"perm":6}]}', b'{"topicConfigList":[{"topicName":"a","perm":1e99}]}',
     b'{"topicConfigList":[{"topicName":"a","attributes":[]}]}'],
)  # fmt: skip
async def test_a_bad_list_of_topics_changes_nothing(broker: StartBroker, body: bytes) -> None:
    async with broker() as (_, channel):
        before = await table(channel, GetAllTopicConfig())
        answer = await ask(channel, CreateTopicList(), body)
        assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER)
        assert await table(channel, GetAllTopicConfig()) == before


async def test_pages_of_topics_begin_anew_when_the_table_changes(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        whole = await table(channel, GetAllTopicConfig())
        version = fastjson.dumps(whole["dataVersion"]).decode()
        names: list[str] = []
        while True:
            answer = await channel.call(GetAllTopicConfig(len(names), version, 4))
            page = list(fastjson.loads(answer.body)["topicConfigTable"])
            assert AllTopicConfigReply.read(answer.ext).total_topic_num == len(whole["topicConfigTable"])
            if not page:
                break
            names += page
        assert names == sorted(whole["topicConfigTable"])
        await channel.call(create())
        assert list((await table(channel, GetAllTopicConfig(4, version, 4)))["topicConfigTable"]) == names[:4]
        assert list((await table(channel, GetAllTopicConfig(4, "junk", 4)))["topicConfigTable"]) == names[:4]


# --- groups


async def test_a_group_is_made_shown_and_deleted(broker: StartBroker) -> None:
    async with broker(autoCreateSubscriptionGroup="false") as (_, channel):
        await channel.call(CreateGroup(), b'{"groupName":"g","consumeEnable":"false","retryQueueNums":"2"}')
        shown = await table(channel, GetGroupConfig("g"))
        assert (shown["consumeEnable"], shown["retryQueueNums"]) == (False, 2)
        await channel.call(DeleteGroup("g"))
        answer = await ask(channel, GetGroupConfig("g"))
        assert (answer.code, answer.remark) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")


async def test_looking_a_group_up_makes_it(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        assert (await table(channel, GetGroupConfig("g")))["groupName"] == "g"


async def test_a_group_may_take_its_offsets_along(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(create())
        for clean_offset, left in ((False, 5), (True, None)):
            await channel.call(CreateGroup(), b'{"groupName":"g"}')
            await channel.call(UpdateConsumerOffset("orders", "g", 0, 5))
            await channel.call(DeleteGroup("g", clean_offset))
            answer = await ask(channel, QueryConsumerOffset("orders", 0, "g"))
            assert answer.ext.get("offset") == (None if left is None else str(left))


async def test_lists_and_pages_of_groups(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(CreateGroup())  # an empty body says nothing, as with the original
        await channel.call(CreateGroupList(), b'{"groupConfigList":[{"groupName":"a"},{"groupName":"b"}]}')
        answer = await channel.call(GetAllGroupConfig(0, None, 3))
        assert AllGroupConfigReply.read(answer.ext).total_group_num == 10
        assert len(fastjson.loads(answer.body)["subscriptionGroupTable"]) == 3
        assert {"a", "b"} <= (await table(channel, GetAllGroupConfig()))["subscriptionGroupTable"].keys()


_DEEP = b'{"groupName":"g","subscriptionDataSet":' + b"[" * 300 + b"]" * 300 + b"}"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{}", ResponseCode.INVALID_PARAMETER),
        (b'{"groupName":"a/b"}', ResponseCode.INVALID_PARAMETER),
        (b'{"groupName":"g","attributes":{"+nope":"1"}}', ResponseCode.SYSTEM_ERROR),
        (b'{"groupName":"g","retryQueueNums":99999999999}', ResponseCode.SYSTEM_ERROR),
        (b'{"groupName":"g","brokerId":99999999999999999999999}', ResponseCode.SYSTEM_ERROR),
        (b'{"groupName":"g","groupRetryPolicy":[]}', ResponseCode.SYSTEM_ERROR),
        (b'{"groupName":"g","groupRetryPolicy":{"exponentialRetryPolicy":{"max":"x"}}}', ResponseCode.SYSTEM_ERROR),
        (
            b'{"groupName":"g","groupRetryPolicy":{"customizedRetryPolicy":{"next":["soon"]}}}',
            ResponseCode.SYSTEM_ERROR,
        ),
        (_DEEP, ResponseCode.SYSTEM_ERROR),
        (b"[]", ResponseCode.SYSTEM_ERROR),
        (b"{nope", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_bad_group_is_refused(broker: StartBroker, body: bytes, code: int) -> None:
    async with broker() as (_, channel):
        assert (await ask(channel, CreateGroup(), body)).code == code
        many = b'{"groupConfigList":[' + body + b"]}"
        assert (await ask(channel, CreateGroupList(), many)).code == code
        assert "g" not in (await table(channel, GetAllGroupConfig()))["subscriptionGroupTable"]


# --- offsets


async def test_a_new_group_begins_with_a_young_queue(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(create())
        answer = await ask(channel, QueryConsumerOffset("orders", 0, "g"))
        assert (answer.code, answer.remark) == (
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
        )
        await send(channel)
        assert OffsetReply.read((await channel.call(QueryConsumerOffset("orders", 0, "g"))).ext).offset == 0
        answer = await ask(channel, QueryConsumerOffset("orders", 0, "g", False))
        assert answer.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("request_", "code", "why"),
    [
        (
            UpdateConsumerOffset("orders", None, 0, 1),
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            "Group null not exist!",
        ),
        (UpdateConsumerOffset("orders", "g", 0, 1), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group g not exist!"),
        (UpdateConsumerOffset("x", "TOOLS_CONSUMER", 0, 1), ResponseCode.TOPIC_NOT_EXIST, "Topic x not exist!"),
        (UpdateConsumerOffset("TBW102", "TOOLS_CONSUMER"), ResponseCode.INVALID_PARAMETER, "QueueId is null"),
        (UpdateConsumerOffset("TBW102", "TOOLS_CONSUMER", 0), ResponseCode.INVALID_PARAMETER, "Offset is null"),
    ],
)
async def test_commits_that_are_refused(broker: StartBroker, request_: Header, code: int, why: str) -> None:
    async with broker() as (_, channel):
        answer = await ask(channel, request_)
        assert answer.code == code
        assert why in (answer.remark or "")


async def test_where_a_queue_begins_and_ends(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        for _ in range(3):
            await send(channel)

        async def offset(request: Header) -> int:
            return OffsetReply.read((await channel.call(request)).ext).offset

        assert await offset(GetMinOffset("orders", 0)) == 0
        assert await offset(GetMaxOffset("orders", 0)) == 3
        assert await offset(SearchOffset("orders", 0, 0)) == 0
        assert await offset(SearchOffset("orders", 0, 1 << 60)) == 3
        assert EarliestTimeReply.read((await channel.call(GetEarliestStoreTime("orders", 0))).ext).timestamp > 0
        for topic, queue_id in (("absent", 0), ("orders", 9), ("orders", -1)):
            assert await offset(GetMaxOffset(topic, queue_id)) == 0
            assert await offset(GetMinOffset(topic, queue_id)) == 0
            assert (
                EarliestTimeReply.read((await channel.call(GetEarliestStoreTime(topic, queue_id))).ext).timestamp == -1
            )


@pytest.mark.parametrize("code", [RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET, RequestCode.GET_TOPIC_CONFIG])
async def test_a_missing_field_is_an_error_of_the_request(broker: StartBroker, code: int) -> None:
    async with broker() as (_, channel):
        assert (await channel.exchange(Command(code))).code == ResponseCode.SYSTEM_ERROR
