"""Half messages, what becomes of them, and what may not."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import StartBroker

from cometmq.broker.app import load_settings
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.errors import PeerRefused, PeerTimeout, StoreNotWritable
from cometmq.model.names import CHECK_MAX_TIME_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from cometmq.net.channel import Channel
from cometmq.store.append import Appended
from cometmq.store.engine import Store
from cometmq.wire.codes import ResponseCode
from cometmq.wire.message_id import offset_id
from cometmq.wire.record import decode_record, pack_host
from cometmq.wire.requests.transaction import CheckTransactionState, ResumeCheckHalfMessage

from .test_send_and_pull import send
from .transaction_kit import (
    COMMIT,
    GROUP,
    OLD_MS,
    ROLLBACK,
    TOPIC,
    UNKNOWN,
    Begun,
    begin,
    bodies,
    checked,
    killed,
    producer,
    stored,
)

FAST = {"transactionCheckInterval": "20", "transactionOpBatchInterval": "20"}
NO_CHECKS = {"transactionCheckInterval": "100000", "transactionOpBatchInterval": "100000"}


async def refused(channel: Channel, request: object) -> PeerRefused:
    with pytest.raises(PeerRefused) as caught:
        await channel.call(request)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_a_commit_makes_the_message_visible_once(broker: StartBroker, flush: str) -> None:
    async with broker(flushDiskType=flush) as (_, channel):
        begun = await begin(channel, "a", more="TAGS\x01paid\x02DELAY\x013\x02")
        assert await stored(channel) == []
        (half,) = await stored(channel, HALF_TOPIC)
        assert half.properties["REAL_TOPIC"] == TOPIC
        assert half.properties["REAL_QID"] == "0"
        assert half.properties["__transactionId__"] == "a"
        await channel.call(begun.end(COMMIT))
        await channel.call(begun.end(COMMIT))
        assert await bodies(channel, 1) == ["a"]
        (record,) = await stored(channel)
        assert record.sys_flag & 12 == COMMIT
        assert record.prepared_offset == begun.physical_offset
        assert record.flag == 3
        assert "REAL_TOPIC" not in record.properties
        assert record.properties["TAGS"] == "paid"


async def test_a_rollback_is_written_down_before_it_is_answered(broker: StartBroker) -> None:
    async with broker(**NO_CHECKS) as (_, channel):
        first, second, third = [await begin(channel, key) for key in "abc"]
        await channel.call(first.end(COMMIT))
        await channel.call(third.end(ROLLBACK))
        (op,) = await stored(channel, HALF_OP_TOPIC)
        assert (op.body, op.properties["TAGS"]) == (b"0,2,", "d")
        assert (await refused(channel, third.end(COMMIT))).code == ResponseCode.ILLEGAL_OPERATION
        assert (await refused(channel, first.end(ROLLBACK))).code == ResponseCode.ILLEGAL_OPERATION
        await channel.call(third.end(ROLLBACK))
        await channel.call(second.end(COMMIT))
        assert await bodies(channel, 2) == ["a", "b"]


async def test_what_cannot_be_ended(broker: StartBroker) -> None:
    async with broker(**NO_CHECKS) as (_, channel):
        begun = await begin(channel, "a")
        sent = await channel.call(send(properties=f"PGROUP\x01{GROUP}\x02"), b"plain")
        plain = Begun("", int(sent.ext["msgId"][-16:], 16), int(sent.ext["queueOffset"]))
        wrong = [
            begun.end(COMMIT, group="others"),
            Begun("a", begun.physical_offset, 1).end(COMMIT),
            Begun("a", begun.physical_offset + 1, 0).end(COMMIT),
            Begun("a", -1, 0).end(COMMIT),
            Begun("a", 1 << 40, 0).end(ROLLBACK),
            plain.end(COMMIT),
            plain.end(ROLLBACK),
            begun.end(4),
        ]
        for request in wrong:
            assert (await refused(channel, request)).code == ResponseCode.SYSTEM_ERROR
        with pytest.raises(PeerTimeout):
            await channel.call(begun.end(UNKNOWN), timeout_ms=100)
        await channel.call(begun.end(COMMIT))
        assert await bodies(channel, 2) == ["plain", "a"]


async def test_producers_are_asked_in_turn_and_the_last_copy_is_ended_by_any(broker: StartBroker) -> None:
    async with broker(**FAST) as (running, channel):
        one, asked_one = await producer(running.address, "one")
        two, asked_two = await producer(running.address, "two")
        begun = await begin(channel, "a", age_ms=OLD_MS, more="CHECK_IMMUNITY_TIME_IN_SECONDS\x01x\x02")
        first, second = await asked_one.get(), await asked_two.get()
        request = CheckTransactionState.read(first.ext)
        assert request.topic == HALF_TOPIC
        assert request.broker_name == "broker-a"
        assert request.transaction_id == request.msg_id == "a"
        assert request.offset_msg_id is not None
        assert int(request.offset_msg_id[-16:], 16) == request.commit_log_offset
        record = decode_record(first.body, check_crc=True)
        assert (record.topic, record.queue_id, record.body) == (TOPIC, 0, b"a")
        assert record.queue_offset == request.tran_state_table_offset
        assert record.properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert decode_record(second.body).properties["TRANSACTION_CHECK_TIMES"] == "2"
        assert (await refused(channel, begun.end(COMMIT))).code == ResponseCode.ILLEGAL_OPERATION  # too late, unasked
        await channel.call(checked(first).end(COMMIT, checked=True))
        await channel.call(checked(second).end(COMMIT, checked=True))
        with pytest.raises(PeerRefused):
            await channel.call(begun.end(ROLLBACK, checked=True))
        while not (asked_one.empty() and asked_two.empty()):
            for asked in (asked_one, asked_two):
                if not asked.empty():
                    asked.get_nowait()
        await asyncio.sleep(0.1)  # some rounds more: nobody is asked again
        assert asked_one.empty()
        assert asked_two.empty()
        assert await bodies(channel, 1) == ["a"]
        one.close()
        two.close()


async def test_one_checked_too_often_is_put_aside_and_can_be_taken_up(broker: StartBroker) -> None:
    async with broker(transactionCheckMax="3", **FAST) as (running, channel):
        member, asked = await producer(running.address)
        await begin(channel, "a", age_ms=OLD_MS)
        assert await bodies(channel, 1, CHECK_MAX_TIME_TOPIC) == ["a"]
        (aside,) = await stored(channel, CHECK_MAX_TIME_TOPIC)
        assert aside.properties["TRANSACTION_CHECK_TIMES"] == "3"
        times = [decode_record(asked.get_nowait().body).properties["TRANSACTION_CHECK_TIMES"] for _ in range(3)]
        assert times == ["1", "2", "3"]
        assert asked.empty()
        msg_id = offset_id(aside.store_host, aside.physical_offset)
        await channel.call(ResumeCheckHalfMessage(msg_id=msg_id))
        again = checked(await asked.get())
        await channel.call(again.end(COMMIT, checked=True))
        assert await bodies(channel, 1) == ["a"]
        assert (await refused(channel, ResumeCheckHalfMessage(msg_id=msg_id))).code == ResponseCode.SYSTEM_ERROR
        member.close()


async def test_what_cannot_be_resumed(broker: StartBroker) -> None:
    async with broker(**NO_CHECKS) as (_, channel):
        plain = (await channel.call(send(), b"plain")).ext["msgId"]
        for msg_id in (None, "", "no id", "00" * 16, plain):
            await refused(channel, ResumeCheckHalfMessage(msg_id=msg_id))
        assert await stored(channel, HALF_TOPIC) == []


async def test_immunity_delays_the_check_and_costs_none(broker: StartBroker) -> None:
    async with broker(**FAST, transactionTimeOut="10") as (running, channel):
        member, asked = await producer(running.address)
        await begin(channel, "a", more="CHECK_IMMUNITY_TIME_IN_SECONDS\x011\x02")
        await begin(channel, "b")
        first = await asked.get()
        assert checked(first).key == "b"
        await channel.call(checked(first).end(ROLLBACK, checked=True))
        while checked(command := await asked.get()).key != "a":
            pass
        record = decode_record(command.body)
        assert record.properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert record.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
        member.close()


@pytest.mark.parametrize("verdict", [COMMIT, ROLLBACK])
async def test_a_kill_between_an_end_and_its_op_message(broker: StartBroker, tmp_path: Path, verdict: int) -> None:
    async with broker(**NO_CHECKS) as (_, channel):
        ended, left = await begin(channel, "ended", age_ms=OLD_MS), await begin(channel, "left", age_ms=OLD_MS)
        await channel.call(ended.end(verdict))
        copy = killed(tmp_path / "store", tmp_path / "copy")
    async with broker(storePathRootDir=copy, **FAST) as (running, channel):
        member, asked = await producer(running.address)
        assert checked(await asked.get()).key == "left"
        if verdict == COMMIT:
            await channel.call(ended.end(COMMIT))
        assert (await refused(channel, ended.end(ROLLBACK + COMMIT - verdict))).code == ResponseCode.ILLEGAL_OPERATION
        await channel.call(left.end(COMMIT))
        assert await bodies(channel, 1 + (verdict == COMMIT)) == ["ended"] * (verdict == COMMIT) + ["left"]
        member.close()


async def test_progress_is_saved_as_java_saves_it(broker: StartBroker, tmp_path: Path) -> None:
    offsets = tmp_path / "store" / "config" / "consumerOffset.json"
    async with broker(**FAST) as (_, channel):
        for key in "ab":
            await channel.call((await begin(channel, key)).end(ROLLBACK))
        left = await begin(channel, "c")
    table = json.loads(offsets.read_text())["offsetTable"]
    assert table == {f"{topic}@CID_RMQ_SYS_TRANS": {"0": 2} for topic in (HALF_TOPIC, HALF_OP_TOPIC)}
    async with broker(**FAST) as (_, channel):
        await channel.call(left.end(COMMIT))
        assert await bodies(channel, 1) == ["c"]


async def test_refused_where_transactions_are_forbidden(broker: StartBroker) -> None:
    async with broker(rejectTransactionMessage="true") as (_, channel):
        with pytest.raises(PeerRefused) as caught:
            await begin(channel, "a")
        assert caught.value.code == ResponseCode.NO_PERMISSION


async def test_junk_in_the_system_topics_holds_nobody_up(broker: StartBroker, tmp_path: Path) -> None:
    async with broker():
        pass  # which makes the tables
    config = load_settings({"storePathRootDir": str(tmp_path / "store"), "mappedFileSizeCommitLog": "1048576"}).store
    store = Store.open(config, store_host=pack_host("127.0.0.1", 1))
    for text in (b"", b"REAL_TOPIC\x01orders\x02", b"REAL_TOPIC\x01../x\x02REAL_QID\x010\x02", b"REAL_QID\x01-1\x02"):
        store.append(HALF_TOPIC, 0, b"junk", text)
    for body in (b"", b",,", b"x,-1,99999999999999999999,", b"\xff"):
        store.append(HALF_OP_TOPIC, 0, body, b"TAGS\x01d\x02", "d")
    store.append(HALF_OP_TOPIC, 0, b"4,", b"TAGS\x01other\x02")
    store.close()
    async with broker(**FAST) as (running, channel):
        member, asked = await producer(running.address)
        begun = await begin(channel, "a", age_ms=OLD_MS)
        assert begun.half_offset == 4
        await channel.call(checked(await asked.get()).end(COMMIT, checked=True))
        assert await bodies(channel, 1) == ["a"]
        member.close()


async def test_properties_without_room_for_a_check(broker: StartBroker) -> None:
    async with broker(**FAST) as (running, channel):
        member, asked = await producer(running.address)
        size = 32_000
        with pytest.raises(PeerRefused):
            while True:
                await begin(channel, f"k{size}", age_ms=OLD_MS, more=f"X\x01{'y' * size}\x02")
                size += 15
        await begin(channel, "small", age_ms=OLD_MS)
        while checked(await asked.get()).key != "small":
            pass
        assert await bodies(channel, 1, CHECK_MAX_TIME_TOPIC)
        member.close()


async def test_a_producer_that_does_not_read_is_not_asked(broker: StartBroker) -> None:
    async with broker(transactionCheckMax="1000000", **FAST) as (running, channel):
        deaf, _ = await producer(running.address, "deaf")
        deaf.stop_reading()
        for number in range(100):
            await begin(channel, f"k{number}", age_ms=OLD_MS, more=f"X\x01{'y' * 30_000}\x02")
        member, asked = await producer(running.address, "listening")
        keys = set()
        async with asyncio.timeout(20):
            while len(keys) < 100:
                copy = checked(await asked.get())
                keys.add(copy.key)
                with suppress(PeerRefused):
                    await channel.call(copy.end(COMMIT, checked=True))
        assert sorted(await bodies(channel, 100)) == sorted(keys)
        deaf.close()
        member.close()


async def test_a_producer_that_has_no_room_for_all_checks_is_asked_until_it_has_answered(broker: StartBroker) -> None:
    keys = [f"k{number}" for number in range(40)]
    async with broker(transactionCheckMax="1000000", **FAST) as (running, channel):
        for key in keys:
            await begin(channel, key, age_ms=OLD_MS)
        member, asked = await producer(running.address, held_max=5)
        ended: set[str] = set()
        async with asyncio.timeout(20):
            while not asked.full():  # noqa: ASYNC110 (nobody says so)
                await asyncio.sleep(0.01)
            while len(ended) < len(keys):
                copy = checked(await asked.get())
                await member.call(copy.end(COMMIT, checked=True))
                ended.add(copy.key)
        assert sorted(await bodies(channel, len(keys))) == sorted(keys)
        member.close()


@pytest.mark.parametrize("verdict", [COMMIT, ROLLBACK])
async def test_an_end_that_could_not_be_written_down_is_written_down_by_the_next_try(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch, verdict: int
) -> None:
    put, failing = InnerMessages.put, [True]

    def full(self: InnerMessages, message: InnerMessage, **how: bool) -> Appended:
        if failing and message.topic == HALF_OP_TOPIC:
            raise StoreNotWritable("no room")
        return put(self, message, **how)

    monkeypatch.setattr(InnerMessages, "put", full)
    async with broker(transactionOpMsgMaxSize="1") as (_, channel):
        begun = await begin(channel, "a")
        answer = await channel.exchange(begun.end(verdict).command())
        assert (answer.code == ResponseCode.SUCCESS) is (verdict == COMMIT)  # delivered is enough to know it by
        again = await channel.exchange(begun.end(verdict).command())
        assert again.code == answer.code
        failing.clear()
        assert (await channel.exchange(begun.end(verdict).command())).code == ResponseCode.SUCCESS
        if verdict == ROLLBACK:
            assert [bytes(one.body) for one in await stored(channel, HALF_OP_TOPIC)] == [b"0,"]
        assert await bodies(channel, int(verdict == COMMIT)) == ["a"] * (verdict == COMMIT)
