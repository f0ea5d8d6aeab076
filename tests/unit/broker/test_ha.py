"""Master and slave, both CometMQ's: the log, the queues, the tables, and what an acknowledgement waits for."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from threading import Event

import orjson
import pytest
from tests.unit.broker.state_kit import file_table

from cometmq.broker.config import BrokerConfig
from cometmq.broker.ha.config import HaConfig
from cometmq.broker.ha.replicas import Replicas
from cometmq.broker.topics import Topics
from cometmq.clock import SystemClock
from cometmq.errors import PeerRefused, ProtocolError
from cometmq.store.fs import OsFs
from cometmq.wire import fastjson
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import ResponseCode
from cometmq.wire.ha import Hello, encode_hello, encode_report
from cometmq.wire.requests.admin import CreateGroup, CreateTopic, GetAllGroupConfig, GetAllTopicConfig
from cometmq.wire.requests.consume import QueryConsumerOffset, UpdateConsumerOffset
from cometmq.wire.requests.delay import GetAllDelayOffset
from cometmq.wire.requests.members import GetAllMessageRequestMode, SetMessageRequestMode
from cometmq.wire.requests.timer import GetTimerCheckPoint, GetTimerMetrics
from cometmq.wire.requests.transaction import EndTransaction

from .ha_kit import SEGMENT, group, log_bytes, message, until


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_an_empty_slave_gets_the_whole_log_and_can_be_read(tmp_path: Path, flush: str) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start(0, flushDiskType=flush)
        await brokers.send(master, 200)
        slave = await brokers.start(1, flushDiskType=flush)
        await brokers.send(master, 100)
        await brokers.caught_up(master)
        ours, theirs = log_bytes(brokers.store(0)), log_bytes(brokers.store(1))
        assert len(ours) > 4 * SEGMENT
        assert ours == theirs
        found = await brokers.pulled(slave, 290, 10)
        assert [record.queue_offset for record in found] == list(range(290, 300))
        channel = await brokers.channel(slave)
        with pytest.raises(PeerRefused, match="REJECTREQUEST"):
            await channel.call(message(), b"for the master")


async def test_tables_flow_to_the_slave(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start(0)
        channel = await brokers.channel(master)
        await channel.call(CreateTopic("paid", 3, 3, 6, "SINGLE_TAG", attributes="+message.type=FIFO"))
        await channel.call(CreateTopic("batches", 1, 1, 6, "SINGLE_TAG", attributes="+queue.type=BatchCQ"))
        await channel.call(CreateGroup(), b'{"groupName":"readers","retryMaxTimes":7}')
        await channel.call(UpdateConsumerOffset(topic="paid", consumer_group="readers", queue_id=2, commit_offset=41))
        mode = {"topic": "paid", "consumerGroup": "readers", "mode": "POP", "popShareQueueNum": 2}
        await channel.call(SetMessageRequestMode(), orjson.dumps(mode))
        await channel.call(message("paid", properties="DELAY\x0118\x02"), b"later")
        slave = await brokers.start(1)
        await brokers.caught_up(master)
        other = await brokers.channel(slave)
        for request in (
            GetAllTopicConfig(),
            GetAllGroupConfig(),
            GetAllDelayOffset(),
            GetAllMessageRequestMode(),
            GetTimerMetrics(),
        ):
            ours, theirs = [fastjson.loads((await one.call(request)).body) for one in (channel, other)]
            theirs.pop("mappingDataVersion", None), ours.pop("mappingDataVersion", None)
            assert theirs == ours, request
        assert (await other.call(QueryConsumerOffset(topic="paid", consumer_group="readers", queue_id=2))).ext[
            "offset"
        ] == "41"
        assert (await other.call(GetTimerCheckPoint())).body[:8] != bytes(8)


async def test_what_a_slave_copied_is_on_its_disk_at_once(tmp_path: Path) -> None:
    never = {"flushConsumerOffsetInterval": "3600000"}
    async with group(tmp_path) as brokers:
        master, slave = await brokers.start(0, **never), await brokers.start(1, **never)
        await brokers.caught_up(master)
        await (await brokers.channel(master)).call(message("new"), b"first")
        assert await brokers.pulled(slave, 0, 1, topic="new")
        saved = orjson.loads((brokers.store(1) / "config" / "topics.json").read_bytes())
        assert "new" in saved["topicConfigTable"]


async def test_names_that_could_leave_the_folder_are_not_copied(tmp_path: Path) -> None:
    topics = Topics(file_table(tmp_path / "topics.json"), BrokerConfig(), SystemClock())
    row = {"perm": 6, "readQueueNums": 1, "writeQueueNums": 1, "topicFilterType": "SINGLE_TAG"}
    names = ("good", "../bad", "a/b", "")
    table = {name: {**row, "topicName": name} for name in names} | {"liar": {**row, "topicName": "../liar"}}
    topics.follow(fastjson.dumps({"dataVersion": {"counter": 7}, "topicConfigTable": table}))
    assert [topic.name for topic in topics] == ["good"]
    for body in (
        b"",
        b"[]",
        b"{}",
        b'{"topicConfigTable":[]}',
        b'{"dataVersion":{"counter":8},"topicConfigTable":{"x":5}}',
    ):
        with pytest.raises((ProtocolError, AttributeError, TypeError, ValueError)):
            topics.follow(body)
        assert [topic.name for topic in topics] == ["good"]


async def test_a_slave_that_is_made_the_master_delivers_what_waits_and_nothing_twice(tmp_path: Path) -> None:
    delays = {"messageDelayLevel": "1s 5s"}
    async with group(tmp_path) as brokers:
        master, slave = await brokers.start(0, **delays), await brokers.start(1, **delays)
        channel = await brokers.channel(master)
        waits = {
            "DELAY\x011\x02": b"level, at once",
            "DELAY\x012\x02": b"level, later",
            "TIMER_DELAY_MS\x01500\x02": b"timer, at once",
            "TIMER_DELAY_MS\x015000\x02": b"timer, later",
        }
        for text, body in waits.items():
            await channel.call(message(properties=text), body)
        assert len(await brokers.pulled(master, 0, 2)) == 2
        await brokers.caught_up(master)
        await master.stop()
        await slave.stop()
        shutil.rmtree(brokers.store(0))
        brokers.store(1).rename(brokers.store(0))
        master = await brokers.start(0, **delays)
        found = await brokers.pulled(master, 0, 4)
        await asyncio.sleep(1.5)  # time for a repetition
        assert sorted(bytes(one.body) for one in await brokers.pulled(master, 0, 4)) == sorted(waits.values()), found


# --- what an acknowledgement waits for

TWO = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "300", "flushIntervalCommitLog": "50"}


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_a_synchronous_master_waits_for_its_slave_and_no_longer_than_it_may(tmp_path: Path, flush: str) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start(0, **TWO, flushDiskType=flush)
        channel = await brokers.channel(master)
        alone = await channel.exchange(message().command(b"alone"), timeout_ms=20_000)
        assert alone.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert alone.ext["queueOffset"] == "0"
        quick = await channel.exchange(message(properties="WAIT\x01false\x02").command(b"quick"), timeout_ms=20_000)
        assert quick.code == ResponseCode.SUCCESS
        await master.stop()
        master = await brokers.start(0, **{**TWO, "slaveTimeout": "60000"}, flushDiskType=flush)
        await brokers.start(1, flushDiskType=flush)
        await brokers.caught_up(master)
        channel = await brokers.channel(master)
        asked = [channel.exchange(message().command(b"both"), timeout_ms=60_000) for _ in range(50)]
        answers = await asyncio.gather(*asked)
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        kept = log_bytes(brokers.store(1))
        assert kept.count(b"both") == 50, "acknowledged, so the slave has it in its file"


@pytest.mark.parametrize(
    ("role", "code"),
    [("SYNC_MASTER", ResponseCode.FLUSH_SLAVE_TIMEOUT), ("ASYNC_MASTER", ResponseCode.SUCCESS)],
)
async def test_a_slave_in_sync_flush_reports_only_what_is_on_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, code: int
) -> None:
    released, healthy = Event(), OsFs.sync

    def held_up(fs: OsFs, fd: int) -> None:
        if f"{tmp_path}/store-1/commitlog" in str(Path(f"/proc/self/fd/{fd}").readlink()):
            released.wait(60)
        healthy(fs, fd)

    async with group(tmp_path) as brokers:
        master = await brokers.start(0, **{**TWO, "brokerRole": role})
        await brokers.start(1)
        await brokers.caught_up(master)
        channel = await brokers.channel(master)
        monkeypatch.setattr(OsFs, "sync", held_up)
        try:
            answer = await channel.exchange(message().command(b"written, not synced"), timeout_ms=20_000)
            assert answer.code == code
            await until(lambda: b"written, not synced" in log_bytes(brokers.store(1)))
        finally:
            released.set()
        await brokers.caught_up(master)


async def test_too_few_in_sync_refuse_and_auto_lowers_the_need(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        strict = {"inSyncReplicas": "3", "minInSyncReplicas": "2", "enableAutoInSyncReplicas": "true"}
        master = await brokers.start(0, **{**TWO, **strict, "slaveTimeout": "60000"})
        channel = await brokers.channel(master)
        refused = await channel.exchange(message().command(b"nobody has it"))
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
        assert (await brokers.status(master))["masterCommitLogMaxOffset"] == 0
        slave = await brokers.start(1)
        await brokers.caught_up(master)
        assert (await channel.exchange(message().command(b"two have it"), timeout_ms=60_000)).code == 0
        second = await brokers.start(2)
        await brokers.caught_up(master, 2)
        assert (await channel.exchange(message().command(b"three have it"), timeout_ms=60_000)).code == 0
        assert b"three have it" in log_bytes(brokers.store(1)) and b"three have it" in log_bytes(brokers.store(2))
        await slave.stop()
        await second.stop()
        assert (await channel.exchange(message().command(b"nobody"), timeout_ms=20_000)).code == 1


async def test_too_few_in_sync_refuse_only_who_waits_and_a_slave_that_comes_back_ends_it(tmp_path: Path) -> None:
    """Batches and messages for later, too; what does not wait (`WAIT=false`) is stored, as in the original."""
    not_waiting = "WAIT\x01false\x02"
    async with group(tmp_path) as brokers:
        master = await brokers.start(0, **{**TWO, "minInSyncReplicas": "2", "slaveTimeout": "60000"})
        channel = await brokers.channel(master)

        async def codes(more: str = "") -> set[int]:
            asked = [
                message(properties=f"TAGS\x01a\x02{more}").command(b"plain"),
                message(properties=f"DELAY\x011\x02{more}").command(b"later"),
                message(batch=True, properties=f"TAGS\x01a\x02{more}").command(encode_batch([(0, b"of a batch", b"")])),
            ]
            answers = [await channel.exchange(one, timeout_ms=60_000) for one in asked]
            return {answer.code for answer in answers}

        assert await codes() == {ResponseCode.SYSTEM_ERROR}
        assert (await brokers.status(master))["masterCommitLogMaxOffset"] == 0
        assert await codes(not_waiting) == {ResponseCode.SUCCESS}
        slave = await brokers.start(1)
        await brokers.caught_up(master)
        assert await codes() == {ResponseCode.SUCCESS}
        await slave.stop()
        await brokers.caught_up(master, 0)
        assert await codes() == {ResponseCode.SYSTEM_ERROR}
        await brokers.start(1)
        await brokers.caught_up(master)
        assert await codes() == {ResponseCode.SUCCESS}


def test_with_acting_slaves_as_many_must_be_in_sync_as_are_needed() -> None:
    strict = Replicas(HaConfig(in_sync_replicas=3, min_in_sync_replicas=1), acting=True)
    auto = Replicas(
        HaConfig(in_sync_replicas=3, min_in_sync_replicas=2, enable_auto_in_sync_replicas=True), acting=True
    )
    for replicas, wanted in ((strict, 3), (auto, 2)):
        assert replicas.least == wanted
        for number in range(1, wanted):
            assert replicas.too_few(100), f"{number} of {wanted}"
            replicas.join(f"10.0.0.{number}").acknowledged = 100
        assert not replicas.too_few(100)


async def test_a_slave_refuses_what_only_a_master_does(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        await brokers.start(0)
        slave = await brokers.start(1)
        channel = await brokers.channel(slave)
        end = EndTransaction(
            producer_group="producers", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8
        )
        assert (await channel.exchange(end.command())).code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert (await channel.exchange(message().command(b"x"))).code == ResponseCode.SYSTEM_BUSY
        status = await brokers.status(slave)
        assert not status["master"]


def test_a_slave_counts_once() -> None:
    replicas = Replicas(HaConfig(in_sync_replicas=3))
    first = replicas.join("10.0.0.7")
    first.sent, first.acknowledged = 100, 100
    again = replicas.join("10.0.0.7")  # the same slave, or another one of that machine: nobody knows
    again.sent, again.acknowledged = 100, 100
    assert replicas.replicated(100) == 0, "two connections, and perhaps one slave"
    first.acknowledged = 100  # what was under way when the second came proves nothing
    assert replicas.replicated(100) == 0
    first.sent = first.acknowledged = 150
    again.sent = again.acknowledged = 150
    assert replicas.replicated(150) == 150, "both live: they are two"
    replicas.leave(first)
    assert replicas.replicated(150) == 0


def test_what_a_slave_said_over_an_older_connection_counts_no_more() -> None:
    replicas = Replicas(HaConfig(in_sync_replicas=2))
    older = replicas.join("10.0.0.7")
    assert replicas.name(older, 1) == []
    older.acknowledged = 50
    other = replicas.join("10.0.0.7")
    assert replicas.name(other, 2) == []
    assert older.counted == 50, "it has a name: another connection casts no doubt on it"
    newer = replicas.join("10.0.0.7")
    assert replicas.name(newer, 1) == [older]
    assert replicas.replicated(50) == 0
    older.sent = older.acknowledged = 60
    assert replicas.replicated(60) == 60, "it lives: it is another slave"


async def test_two_slaves_with_one_id_are_both_served_and_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with group(tmp_path) as brokers:
        master = await brokers.start(0)
        await brokers.start(1)
        await brokers.caught_up(master)
        await brokers.start(2, brokerId="1")
        await brokers.caught_up(master, 2)
        await until(lambda: said(caplog, "two slaves say brokerId=1: 127.0.0.1:"))
        connected = len(said(caplog, ": is at offset "))
        await brokers.send(master, 20)
        await brokers.caught_up(master, 2)
        assert log_bytes(brokers.store(1)) == log_bytes(brokers.store(2)) == log_bytes(brokers.store(0))
        assert len(said(caplog, "two slaves say")) == 1
        assert len(said(caplog, ": is at offset ")) == connected, "nobody throws the other out"


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [one.message for one in caplog.records if words in one.message]


async def test_an_older_connection_that_is_silent_is_closed_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with group(tmp_path) as brokers:
        master = await brokers.start(0, haHousekeepingInterval="60000")
        host, _, port = master.ha_address.rpartition(":")
        silent, writer = await asyncio.open_connection(host, int(port))
        writer.write(encode_hello(Hello(1, from_first=True)) + encode_report(0))
        await until(lambda: said(caplog, ": is at offset 0"))
        await brokers.start(1)
        async with asyncio.timeout(30):
            await silent.read()
        writer.close()
        await brokers.caught_up(master)
        assert not said(caplog, "two slaves say") and not said(caplog, "silent")


@pytest.mark.parametrize(("least", "answered"), [("1", "answered FLUSH_SLAVE_TIMEOUT"), ("2", "refused")])
async def test_the_last_slave_that_is_needed_is_missed_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, least: str, answered: str
) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start(0, **TWO, minInSyncReplicas=least)
        slave = await brokers.start(1)
        second = await brokers.start(2)
        await brokers.caught_up(master, 2)
        await second.stop()
        await brokers.caught_up(master, 1)
        assert not said(caplog, "slave(s) follow")
        await slave.stop()
        await until(lambda: said(caplog, "0 slave(s) follow, and an acknowledgement needs 1"))
        assert f"sends are {answered} until" in said(caplog, "slave(s) follow")[0]
        await brokers.start(1)
        await until(lambda: said(caplog, "1 slave(s) follow again"))
        await master.stop()
        assert len(said(caplog, "slave(s) follow")) == 2


def test_a_slave_far_behind_is_not_in_sync() -> None:
    replicas = Replicas(HaConfig(in_sync_replicas=2, ha_max_gap_not_in_sync=100))
    slave = replicas.join("10.0.0.7")
    assert replicas.in_sync(0) == 1, "it has not said anything yet"
    slave.acknowledged = 50
    assert replicas.in_sync(149) == 2
    assert replicas.in_sync(150) == 1
