"""One message down and up again, and everything that may not go down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.conftest import StartBroker

from cometmq.net.channel import Channel
from cometmq.store.commit_log import CommitLog
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import Forbidden, ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.admin import CreateTopic, DeleteTopicInBroker
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply, PullMessage
from cometmq.wire.requests.send import SendBatchMessage, SendMessage, SendMessageReply, SendMessageV2

SUBSCRIPTION, SUSPEND = 4, 2


def send(kind: type[Any] = SendMessageV2, **fields: Any) -> Any:
    given = {
        "producer_group": "producers",
        "topic": "orders",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1,
        "flag": 7,
        "properties": "TAGS\x01paid\x02KEYS\x01order-42\x02",
    }
    return kind(**given | fields)


def pull(offset: int = 0, **fields: Any) -> PullMessage:
    given = {
        "consumer_group": "consumers",
        "topic": "orders",
        "queue_id": 0,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": SUBSCRIPTION,
        "commit_offset": 0,
        "suspend_timeout_millis": 5_000,
        "sub_version": 0,
        "subscription": "*",
    }
    return PullMessage(**given | fields)


async def pulled(channel: Channel, **fields: Any) -> list[Record]:
    return list(decode_records((await channel.call(pull(**fields))).body, check_crc=True))


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("kind", [SendMessage, SendMessageV2])
async def test_what_is_sent_can_be_pulled(broker: StartBroker, kind: type[Any], flush: str) -> None:
    async with broker(flushDiskType=flush) as (_, channel):
        receipts = [SendMessageReply.read((await channel.call(send(kind), b"body %d" % i)).ext) for i in range(3)]
        assert [receipt.queue_offset for receipt in receipts] == [0, 1, 2]
        records = await pulled(channel)
        assert [bytes(record.body) for record in records] == [b"body 0", b"body 1", b"body 2"]
        assert records[0].flag == 7
        assert records[0].properties["TAGS"] == "paid"
        assert records[0].properties["CLUSTER"] == "DefaultCluster"
        assert len(records[0].properties["UNIQ_KEY"]) == 32


async def test_a_batch_is_stored_as_its_messages(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        body = encode_batch([(0, b"one", b"TAGS\x01a\x02"), (0, b"two", b"TAGS\x01b\x02")])
        reply = SendMessageReply.read((await channel.call(send(SendBatchMessage, batch=True), body)).ext)
        assert len(reply.msg_id.split(",")) == 2
        assert [bytes(record.body) for record in await pulled(channel)] == [b"one", b"two"]


async def test_a_one_way_send_is_stored_and_not_answered(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        channel.notify(send(), b"quiet")
        await channel.call(send(), b"loud")
        assert [bytes(record.body) for record in await pulled(channel)] == [b"quiet", b"loud"]


async def test_tags_are_filtered_at_the_broker(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        for tag in ("a", "b", "a"):
            await channel.call(send(properties=f"TAGS\x01{tag}\x02"), tag.encode())
        assert [bytes(r.body) for r in await pulled(channel, subscription="a || c")] == [b"a", b"a"]


async def test_a_parked_pull_wakes_on_arrival(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(send(queue_id=1), b"makes the topic")
        waiting = asyncio.create_task(channel.exchange(pull(sys_flag=SUBSCRIPTION | SUSPEND).command()))
        await channel.call(send(queue_id=1), b"another queue: wakes nobody")
        assert not waiting.done()
        await channel.call(send(), b"wake up")
        answer = await asyncio.wait_for(waiting, 2)
        assert [bytes(record.body) for record in decode_records(answer.body)] == [b"wake up"]


async def test_a_parked_pull_sleeps_through_other_tags(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(send(queue_id=1), b"makes the topic")
        request = pull(sys_flag=SUBSCRIPTION | SUSPEND, subscription="wanted", suspend_timeout_millis=300)
        waiting = asyncio.create_task(channel.exchange(request.command()))
        await channel.call(send(properties="TAGS\x01other\x02"), b"not for you")
        answer = await asyncio.wait_for(waiting, 2)
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answer.ext["nextBeginOffset"] == "1"


async def test_a_parked_pull_ends_at_its_deadline(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(send(queue_id=1), b"makes the topic")
        request = pull(sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=50)
        answer = await asyncio.wait_for(channel.exchange(request.command()), 2)
        assert answer.code == ResponseCode.PULL_NOT_FOUND


async def test_messages_and_topics_survive_a_restart(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"kept")
    async with broker(autoCreateTopicEnable="false") as (_, channel):
        assert [bytes(record.body) for record in await pulled(channel)] == [b"kept"]
        await channel.call(send(), b"and on")
        assert [bytes(record.body) for record in await pulled(channel)] == [b"kept", b"and on"]


REFUSED = [
    ({"topic": "../../etc"}, b"x", ResponseCode.INVALID_PARAMETER),
    ({"topic": "t" * 128}, b"x", ResponseCode.INVALID_PARAMETER),
    ({"topic": " "}, b"x", ResponseCode.INVALID_PARAMETER),
    ({"topic": "SCHEDULE_TOPIC_XXXX"}, b"x", ResponseCode.NO_PERMISSION),
    ({"queue_id": 4}, b"x", ResponseCode.INVALID_PARAMETER),
    ({}, bytes((4 << 20) + 1), ResponseCode.MESSAGE_ILLEGAL),
    ({"properties": "K\x01" + "v" * 33_000 + "\x02"}, b"x", ResponseCode.MESSAGE_ILLEGAL),
]


@pytest.mark.parametrize(("fields", "body", "code"), REFUSED)
async def test_a_refused_send_leaves_nothing_behind(
    broker: StartBroker, fields: dict[str, Any], body: bytes, code: ResponseCode
) -> None:
    async with broker(mappedFileSizeCommitLog=str(8 << 20)) as (_, channel):
        await channel.call(send(), b"first")
        answer = await channel.exchange(send(**fields).command(body))
        assert answer.code == code
        assert answer.remark
        found = OffsetReply.read((await channel.call(GetMaxOffset("orders", 0))).ext)
        assert found.offset == 1


async def test_no_queue_can_be_chosen_where_there_is_none(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        answer = await channel.exchange(send(topic="none", default_topic_queue_nums=0, queue_id=-1).command(b"x"))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "topic[none] has no queue to write to")


async def test_a_batch_whose_lengths_lie_stores_nothing(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"first")
        whole = encode_batch([(0, b"one", b""), (0, b"two", b"")])
        for lie in (whole[:-1], whole[:16] + b"\x7f" + whole[17:], b"\x00"):
            answer = await channel.exchange(send(SendBatchMessage, batch=True).command(lie))
            assert answer.code != ResponseCode.SUCCESS
        assert [bytes(record.body) for record in await pulled(channel)] == [b"first"]


async def test_an_unknown_topic_is_refused_when_topics_are_not_made_by_sending(broker: StartBroker) -> None:
    async with broker(autoCreateTopicEnable="false") as (_, channel):
        answer = await channel.exchange(send().command(b"x"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert "autoCreateTopicEnable" in (answer.remark or "")


WHOLE = {"broker_name": "broker-a"}  # every field that Java's client sends: such a send is remembered


async def test_what_is_remembered_of_a_send_is_forgotten_when_its_topic_changes(broker: StartBroker) -> None:
    async with broker(autoCreateTopicEnable="true") as (_, channel):
        for _ in range(3):
            await channel.call(send(queue_id=3, **WHOLE), b"x")
        smaller = CreateTopic(
            topic="orders",
            default_topic="TBW102",
            read_queue_nums=2,
            write_queue_nums=2,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        await channel.call(smaller)
        answer = await channel.exchange(send(queue_id=3, **WHOLE).command(b"x"))
        assert answer.code == ResponseCode.INVALID_PARAMETER


async def test_a_deleted_topic_is_not_remembered_either(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        for _ in range(3):
            await channel.call(send(**WHOLE), b"x")
        await channel.call(DeleteTopicInBroker("orders"))
        gone = send(**WHOLE, default_topic="nothing")
        assert (await channel.exchange(gone.command(b"x"))).code == ResponseCode.TOPIC_NOT_EXIST


BAD_FIELDS = [("g", "soon"), ("g", "9" * 30), ("e", "x"), ("f", ""), ("h", "1.5"), ("j", "many")]


@pytest.mark.parametrize(("name", "text"), BAD_FIELDS)
async def test_a_remembered_send_is_read_again_where_it_differs(broker: StartBroker, name: str, text: str) -> None:
    async with broker() as (_, channel):
        for _ in range(3):
            await channel.call(send(**WHOLE), b"good")
        command = send(**WHOLE).command(b"bad")
        command.ext[name] = text
        assert (await channel.exchange(command)).code == ResponseCode.SYSTEM_ERROR
        assert [bytes(record.body) for record in await pulled(channel)] == [b"good"] * 3


async def test_a_unique_key_that_needs_escapes_comes_back_whole(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        odd = 'a"b\\c%d\u00e9'
        answer = await channel.call(send(properties=f"UNIQ_KEY\x01{odd}\x02", **WHOLE), b"x")
        assert answer.ext["transactionId"] == odd


async def test_an_unknown_code_is_said_to_be_unknown(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        answer = await channel.exchange(Command(31_999))
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


PULL_REFUSED = [
    ({"topic": "absent"}, ResponseCode.TOPIC_NOT_EXIST),
    ({"queue_id": 9}, ResponseCode.INVALID_PARAMETER),
    ({"queue_id": -1}, ResponseCode.INVALID_PARAMETER),
    ({"sys_flag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
    ({"offset": 5}, ResponseCode.PULL_OFFSET_MOVED),
    ({"subscription": "a > 1", "expression_type": "SQL92"}, ResponseCode.SYSTEM_ERROR),
]


@pytest.mark.parametrize(("fields", "code"), PULL_REFUSED)
async def test_a_refused_pull(broker: StartBroker, fields: dict[str, Any], code: ResponseCode) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"x")
        answer = await channel.exchange(pull(**fields).command())
        assert answer.code == code


async def test_a_broker_that_is_not_to_be_read_hands_out_nothing(broker: StartBroker) -> None:
    async with broker(brokerPermission="2") as (_, channel):
        await channel.call(send(), b"x")
        answer = await channel.exchange(pull().command())
        assert (answer.code, answer.ext["forbiddenType"]) == (ResponseCode.NO_PERMISSION, str(int(Forbidden.BROKER)))


async def test_a_broker_that_is_not_to_be_written_refuses_what_keeps_its_order(broker: StartBroker) -> None:
    """Others go elsewhere as soon as they see the route; who keeps an order would come back."""
    async with broker(brokerPermission="4") as (_, channel):
        await channel.call(send(), b"from before")
        await channel.call(CreateTopic("ordered", 1, 1, 6, "SINGLE_TAG", order=True))
        answer = await channel.exchange(send(topic="ordered").command(b"x"))
        assert (answer.code, answer.remark) == (
            ResponseCode.NO_PERMISSION,
            "the broker[127.0.0.1] sending message is forbidden",
        )
        assert [bytes(record.body) for record in await pulled(channel)] == [b"from before"]


async def test_a_parked_pull_finds_its_tag_behind_a_burst_of_others(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await channel.call(send(queue_id=1), b"makes the topic")
        request = pull(sys_flag=SUBSCRIPTION | SUSPEND, subscription="wanted", suspend_timeout_millis=60_000)
        waiting = asyncio.create_task(channel.exchange(request.command(), timeout_ms=10_000))
        burst = [(0, b"x", b"TAGS\x01other\x02")] * 1_000 + [(0, b"for you", b"TAGS\x01wanted\x02")]
        await channel.call(send(SendBatchMessage, batch=True), encode_batch(burst))
        answer = await asyncio.wait_for(waiting, 2)
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY  # so many are looked at in one go; go on from there
        assert answer.ext["nextBeginOffset"] == "800"


async def test_a_parked_pull_that_cannot_be_served_is_answered_and_the_others_are_served(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    view_of = CommitLog.view_of
    failures = iter([OSError(24, "Too many open files")])

    def fail_once(log: CommitLog, start: int) -> memoryview:
        for failure in failures:
            raise failure
        return view_of(log, start)

    monkeypatch.setattr(CommitLog, "view_of", fail_once)
    async with broker() as (_, channel):
        await channel.call(send(queue_id=1), b"makes the topic")
        parked = [
            asyncio.create_task(channel.exchange(pull(sys_flag=SUBSCRIPTION | SUSPEND).command())) for _ in range(2)
        ]
        await channel.call(send(), b"wake up")
        codes = [(await asyncio.wait_for(one, 2)).code for one in parked]
        assert codes == [ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS]


async def test_a_batch_counts_with_all_its_bytes(broker: StartBroker) -> None:
    async with broker(maxMessageSize="1000") as (_, channel):
        request = send(SendBatchMessage, batch=True)
        await channel.call(request, encode_batch([(0, b"x", b"")] * 43))
        answer = await channel.exchange(request.command(encode_batch([(0, b"x", b"")] * 44)))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert len(await pulled(channel)) == 32
        assert len(await pulled(channel, offset=32)) == 11
