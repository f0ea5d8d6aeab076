"""Batches of very many messages: others have their turn meanwhile, and all of the batch is stored, or nothing."""

from __future__ import annotations

import asyncio

from tests.conftest import StartBroker

from cometmq.broker.batch_intake import AT_ONCE_MAX, IN_TURNS_MAX
from cometmq.model.sysflag import PullFlag
from cometmq.net.channel import Channel
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply, PullMessage
from cometmq.wire.requests.send import SendBatchMessage, SendMessageV2

COUNT = 3 * AT_ONCE_MAX + 7
# A disk that others keep busy is not what is tried here.
LARGE_LOG = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "flushDiskType": "ASYNC_FLUSH",
    "brokerFastFailureEnable": "false",
}


def batch(*, batch_fields: type[SendBatchMessage | SendMessageV2] = SendBatchMessage, count: int = COUNT) -> Command:
    body = encode_batch((0, b"%d" % number, b"") for number in range(count))
    return batch_fields("p", "orders", "TBW102", 4, 0, 0, 1, 0, "", batch=True).command(body)


async def stored(channel: Channel) -> int:
    return OffsetReply.read((await channel.call(GetMaxOffset("orders", 0))).ext).offset


async def all_stored(channel: Channel, count: int = COUNT) -> None:
    async with asyncio.timeout(20):
        while await stored(channel) < count:
            pass
    assert await stored(channel) == count


async def test_others_have_their_turn_while_it_is_read(broker: StartBroker) -> None:
    async with broker(**LARGE_LOG) as (_, channel):
        sending = asyncio.create_task(channel.exchange(batch()))
        await asyncio.sleep(0)  # it is sent
        assert await stored(channel) == 0  # asked behind it, answered before it
        assert not sending.done()
        answer = await sending
        assert answer.code == ResponseCode.SUCCESS
        assert answer.ext["msgId"].count(",") == COUNT - 1
        await all_stored(channel)
        pull = PullMessage("g", "orders", 0, COUNT - 2, 32, int(PullFlag.SUBSCRIPTION), 0, 0, 0, "*")
        last = decode_records((await channel.call(pull)).body)
        assert [record.body for record in last] == [b"%d" % (COUNT - 2), b"%d" % (COUNT - 1)]


async def test_many_of_them_at_once(broker: StartBroker) -> None:
    async with broker(**LARGE_LOG) as (_, channel):
        count = IN_TURNS_MAX + 2
        answers = await asyncio.gather(*(channel.exchange(batch(), timeout_ms=30_000) for _ in range(count)))
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        assert sorted(int(answer.ext["queueOffset"]) for answer in answers) == [COUNT * at for at in range(count)]


async def test_the_header_makes_it_a_batch_whatever_the_code(broker: StartBroker) -> None:
    async with broker(**LARGE_LOG) as (_, channel):
        assert (await channel.exchange(batch(batch_fields=SendMessageV2))).code == ResponseCode.SUCCESS
        await all_stored(channel)


async def test_a_lie_near_its_end_leaves_nothing(broker: StartBroker) -> None:
    async with broker(**LARGE_LOG) as (_, channel):
        command = batch()
        command.body = bytes(command.body)[:-1]
        answer = await channel.exchange(command)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark is not None and f"message {COUNT - 1} of the batch" in answer.remark
        assert await stored(channel) == 0


async def test_the_store_refuses_it_as_a_whole(broker: StartBroker) -> None:
    async with broker() as (_, channel):  # whose log files have room for half of it
        answer = await channel.exchange(batch(count=4 * COUNT))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert answer.ext["MSG_REGION"] == "DefaultRegion"
        assert await stored(channel) == 0
