"""Many transactions ended at once, again and again, over kills; and half messages that wait for who is away."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tests.conftest import StartBroker

from cometmq.errors import PeerRefused
from cometmq.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from cometmq.net.channel import Channel
from cometmq.wire.bodies.positions import ENDS_MAX, Position, pack_positions
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_record
from cometmq.wire.requests.extensions import SURE_ENDS, Ended, EndTransactions, GetExtensions, GetExtensionsReply

from .test_send_and_pull import send
from .test_transactions import FAST, NO_CHECKS, refused
from .transaction_kit import (
    COMMIT,
    GROUP,
    OLD_MS,
    ROLLBACK,
    Begun,
    begin,
    bodies,
    checked,
    killed,
    producer,
    stored,
)

PATIENT = "__COMET_PATIENT\x01mine\x02"
AS_ASKED, OTHERWISE = int(Ended.AS_ASKED), int(Ended.OTHERWISE)


async def end(channel: Channel, begun: list[Begun], verdict: int = COMMIT, **how: str) -> list[int]:
    body = pack_positions([Position(one.half_offset, one.physical_offset) for one in begun])
    request = EndTransactions(how.get("group", GROUP), verdict, how.get("mark"))
    return list((await channel.call(request, body)).body)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_many_are_ended_in_the_order_they_are_named(broker: StartBroker, flush: str) -> None:
    async with broker(flushDiskType=flush, **NO_CHECKS) as (_, channel):
        begun = [await begin(channel, f"k{number}") for number in range(200)]
        wanted = begun[::-1][:150]
        assert await end(channel, wanted) == [AS_ASKED] * 150
        assert await end(channel, wanted) == [AS_ASKED] * 150
        assert await end(channel, begun, ROLLBACK) == [AS_ASKED] * 50 + [OTHERWISE] * 150
        assert await end(channel, begun) == [OTHERWISE] * 50 + [AS_ASKED] * 150
        assert await end(channel, []) == []
        assert await bodies(channel, 150) == [one.key for one in wanted]


async def test_each_of_many_is_judged_by_itself(broker: StartBroker) -> None:
    async with broker(**NO_CHECKS) as (_, channel):
        good, marked = await begin(channel, "good"), await begin(channel, "marked", more=PATIENT)
        sent = await channel.call(send(properties=f"PGROUP\x01{GROUP}\x02"), b"plain")
        plain = Begun("", int(sent.ext["msgId"][-16:], 16), int(sent.ext["queueOffset"]))
        moved = Begun("good", good.physical_offset, good.half_offset + 1)
        gone = Begun("gone", 1 << 40, 0)
        nothing, not_yours = int(Ended.NOTHING_THERE), int(Ended.NOT_YOURS)
        assert await end(channel, [plain, moved, gone, good]) == [nothing, nothing, nothing, AS_ASKED]
        assert await end(channel, [marked], group="others") == [not_yours]
        assert await end(channel, [marked, good], mark="yours") == [not_yours, not_yours]
        assert await end(channel, [marked], mark="mine") == [AS_ASKED]
        assert await bodies(channel, 3) == ["plain", "good", "marked"]
        assert all("__COMET_PATIENT" not in one.properties for one in await stored(channel))


async def test_requests_that_cannot_be_read(broker: StartBroker) -> None:
    async with broker(**NO_CHECKS) as (_, channel):
        begun = await begin(channel, "a")
        good = pack_positions([Position(begun.half_offset, begun.physical_offset)])
        too_many = pack_positions([Position(0, 0)] * (ENDS_MAX + 1))
        for body in (b"", b"\xff" * 20, good[:-1], good + b"\0", too_many):
            with pytest.raises(PeerRefused):
                await channel.call(EndTransactions(GROUP, COMMIT), body)
        for verdict in (0, 4, -1):
            with pytest.raises(PeerRefused):
                await channel.call(EndTransactions(GROUP, verdict), good)
        assert await end(channel, [begun]) == [AS_ASKED]


async def test_ends_are_repeated_after_kills(broker: StartBroker, tmp_path: Path) -> None:
    """Killed before the op message, killed after it, stopped: the same verdict is a success, another is refused."""
    async with broker(**NO_CHECKS) as (_, channel):
        begun = [await begin(channel, key) for key in "abcdef"]
        kept, dropped, left = begun[:2], begun[2:4], begun[4:]
        assert await end(channel, kept) == [AS_ASKED] * 2
        assert await end(channel, dropped, ROLLBACK) == [AS_ASKED] * 2
        first = killed(tmp_path / "store", tmp_path / "first")
    for folder in (first, str(tmp_path / "store"), first):  # its third start is one after a clean stop
        async with broker(storePathRootDir=folder, **NO_CHECKS) as (_, channel):
            for _ in range(2):
                assert await end(channel, kept) == [AS_ASKED] * 2
                assert await end(channel, kept, ROLLBACK) == [OTHERWISE] * 2
                assert await end(channel, dropped, ROLLBACK) == [AS_ASKED] * 2
                assert await end(channel, dropped) == [OTHERWISE] * 2
            await channel.call(kept[0].end(COMMIT))
            await channel.call(dropped[0].end(ROLLBACK))
            assert (await refused(channel, kept[0].end(ROLLBACK))).code == ResponseCode.ILLEGAL_OPERATION
            assert (await refused(channel, dropped[0].end(COMMIT))).code == ResponseCode.ILLEGAL_OPERATION
            assert await end(channel, left) == [AS_ASKED] * 2
            assert await bodies(channel, 4) == ["a", "b", "e", "f"]


async def test_two_attempts_of_the_same_message_are_not_mixed_up(broker: StartBroker, tmp_path: Path) -> None:
    async with broker(**NO_CHECKS) as (_, channel):
        one, two = await begin(channel, "same"), await begin(channel, "same")
        assert await end(channel, [one], ROLLBACK) == [AS_ASKED]
        assert await end(channel, [two]) == [AS_ASKED]
    async with broker(**NO_CHECKS) as (_, channel):
        assert await end(channel, [one, two]) == [OTHERWISE, AS_ASKED]
        assert await end(channel, [one, two], ROLLBACK) == [AS_ASKED, OTHERWISE]


async def test_without_the_index_nobody_claims_to_know(broker: StartBroker) -> None:
    settings = {**NO_CHECKS, "messageIndexEnable": "false"}
    async with broker(**settings) as (_, channel):
        assert GetExtensionsReply.read((await channel.call(GetExtensions())).ext).extensions == ""
        begun = await begin(channel, "a")
        assert await end(channel, [begun]) == [AS_ASKED]
    async with broker(**settings) as (_, channel):
        assert await end(channel, [begun]) == [int(Ended.NOBODY_KNOWS)]
        assert (await refused(channel, begun.end(COMMIT))).code == ResponseCode.ILLEGAL_OPERATION


async def test_the_broker_says_that_it_can(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        assert GetExtensionsReply.read((await channel.call(GetExtensions())).ext).extensions == SURE_ENDS


async def test_patient_ones_wait_where_they_stand(broker: StartBroker) -> None:
    """Others are given up after two checks; the patient one is still there when its producer comes, uncounted."""
    async with broker(transactionCheckMax="2", **FAST) as (running, channel):
        waiting = await begin(channel, "patient", age_ms=OLD_MS, more=PATIENT)
        await begin(channel, "plain", age_ms=OLD_MS)
        assert await bodies(channel, 1, CHECK_MAX_TIME_TOPIC) == ["plain"]
        member, asked = await producer(running.address)
        for _ in range(4):  # more often than transactionCheckMax
            command = await asked.get()
            assert checked(command) == waiting
            record = decode_record(command.body)
            assert record.properties["__COMET_PATIENT"] == "mine"
            assert record.properties["TRAN_PREPARED_QUEUE_OFFSET"] == str(waiting.half_offset)
            assert "TRANSACTION_CHECK_TIMES" not in record.properties
        assert [one.body for one in await stored(channel, HALF_TOPIC)].count(b"patient") == 1
        await channel.call(checked(command).end(COMMIT, checked=True))
        assert await bodies(channel, 1) == ["patient"]
        member.close()


async def test_patient_ones_are_stored_again_now_and_then(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.broker.transaction.checks.PATIENT_COPY_MS", 50)
    async with broker(transactionCheckMax="1", **FAST) as (running, channel):
        waiting = await begin(channel, "patient", more=PATIENT)
        await bodies(channel, 4, HALF_TOPIC)
        copies = await stored(channel, HALF_TOPIC)
        born_ms, *times_ms = [copies[0].born_time_ms, *(one.store_time_ms for one in copies)]
        gaps = [(after - before, before - born_ms) for before, after in pairwise(times_ms)]
        assert all(stood > max(50, age) for stood, age in gaps), "each stands for as long as it was old"
        assert {one.properties.get("TRAN_PREPARED_QUEUE_OFFSET") for one in copies[1:]} == {str(waiting.half_offset)}
        member, asked = await producer(running.address)
        record = decode_record((await asked.get()).body)
        assert record.properties["TRAN_PREPARED_QUEUE_OFFSET"] == str(waiting.half_offset)
        assert await end(channel, [waiting]) == [AS_ASKED]  # by the place that the sender knows
        assert await bodies(channel, 1) == ["patient"]
        assert await stored(channel, CHECK_MAX_TIME_TOPIC) == []
        member.close()


@pytest.mark.parametrize("bound", ["PATIENT_LOG_MAX", "PATIENT_BEHIND_MAX"])
async def test_patient_ones_do_not_stay_far_behind(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """By their age they would be stored again in a minute; the next start and other producers need it sooner."""
    monkeypatch.setattr("cometmq.broker.transaction.checks.PATIENT_COPY_MS", 50)
    monkeypatch.setattr(f"cometmq.broker.transaction.checks.{bound}", 0)
    async with broker(**FAST) as (_, channel):
        await begin(channel, "patient", age_ms=OLD_MS, more=PATIENT)
        await bodies(channel, 4, HALF_TOPIC)
