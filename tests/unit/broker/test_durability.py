"""An acknowledgement means what the flush mode says, also when the disk fails or is slow."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import islice
from threading import Event, current_thread
from typing import Any

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.test_send_and_pull import SUBSCRIPTION, SUSPEND, pull, pulled, send

from cometmq.broker import durability
from cometmq.errors import StoreError
from cometmq.store.commit_log import CommitLog
from cometmq.store.fs import OsFs
from cometmq.store.tables import TableFile
from cometmq.wire.codes import ResponseCode


def replace_sync(monkeypatch: pytest.MonkeyPatch, sync: Callable[[int], object]) -> None:
    """Let the log be synced by `sync`; everything else as ever."""
    healthy = OsFs.sync

    def chosen(fs: OsFs, fd: int) -> None:
        if current_thread().name.startswith("cometmq-flush"):
            sync(fd)
        else:
            healthy(fs, fd)

    monkeypatch.setattr(OsFs, "sync", chosen)


async def test_a_failed_sync_refuses_everyone_and_is_never_retried_as_success(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"safe")
        healthy = OsFs.sync

        def fail(_fd: int) -> None:
            raise OSError(5, os.strerror(5))

        replace_sync(monkeypatch, fail)
        answers = await asyncio.gather(*[channel.exchange(send().command(b"lost")) for _ in range(5)])
        assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        monkeypatch.setattr(OsFs, "sync", healthy)
        assert (await channel.exchange(send().command(b"late"))).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert [bytes(record.body) for record in await pulled(channel)] == [b"safe"]


async def test_a_slow_sync_is_answered_as_not_known_to_be_durable(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(syncFlushTimeout="1000", flushIntervalCommitLog="20") as (_, channel):
        await channel.call(send(), b"quick")
        released = Event()
        replace_sync(monkeypatch, lambda _fd: released.wait(10))
        answer = await channel.exchange(send().command(b"slow"))
        assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert answer.ext["queueOffset"] == "1"
        # What is not flushed is not seen.
        assert (await channel.exchange(pull(offset=1).command())).code == ResponseCode.PULL_NOT_FOUND
        released.set()


async def test_those_who_wait_share_one_sync(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"first")
        count = 0

        def counted(fd: int) -> None:
            nonlocal count
            count += 1
            os.fdatasync(fd)

        replace_sync(monkeypatch, counted)
        await asyncio.gather(*[channel.call(send(), b"x") for _ in range(200)])
        assert count < 50


async def test_too_many_waiting_sends_are_turned_away(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(sendThreadPoolQueueCapacity="10") as (_, channel):
        await channel.call(send(), b"first")
        released = Event()
        replace_sync(monkeypatch, lambda _fd: released.wait(10))
        calls = [asyncio.create_task(channel.exchange(send().command(b"x"))) for _ in range(15)]
        for call in islice(asyncio.as_completed(calls), 5):
            assert (await call).code == ResponseCode.SYSTEM_BUSY
        released.set()
        codes = [(await call).code for call in calls]
        assert codes.count(ResponseCode.SYSTEM_BUSY) == 5
        assert codes.count(ResponseCode.SUCCESS) == 10


async def test_those_who_came_during_a_slow_write_are_turned_away_and_the_next_are_not(broker: StartBroker) -> None:
    async with broker(osPageCacheBusyTimeOutMills="0") as (_, channel):  # every write is a slow one
        assert (await channel.exchange(send().command(b"slow"))).code == ResponseCode.SUCCESS
        for _ in range(2):
            meanwhile = await asyncio.gather(*[channel.exchange(send().command(b"x")) for _ in range(5)])
            assert {answer.code for answer in meanwhile} == {ResponseCode.SYSTEM_BUSY}
            assert meanwhile[0].remark == "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
            assert (await channel.exchange(send().command(b"later"))).code == ResponseCode.SUCCESS
        assert [bytes(record.body) for record in await pulled(channel)] == [b"slow", b"later", b"later"]


async def test_without_fast_failure_nobody_is_turned_away_for_a_slow_write(broker: StartBroker) -> None:
    async with broker(osPageCacheBusyTimeOutMills="0", brokerFastFailureEnable="false") as (_, channel):
        for _ in range(3):
            assert (await channel.exchange(send().command(b"x"))).code == ResponseCode.SUCCESS


async def test_a_flush_by_someone_else_answers_too(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    write = CommitLog.write

    def write_and_lose_the_race(log: CommitLog) -> int:
        written = write(log)
        log.flush()  # as maintenance does in its thread, at any moment
        return written

    monkeypatch.setattr(CommitLog, "write", write_and_lose_the_race)
    async with broker() as (_, channel):
        await channel.call(send(queue_id=1), b"makes the topic")
        waiting = asyncio.create_task(channel.exchange(pull(sys_flag=SUBSCRIPTION | SUSPEND).command()))
        assert (await channel.exchange(send().command(b"x"))).code == ResponseCode.SUCCESS
        assert (await asyncio.wait_for(waiting, 2)).code == ResponseCode.SUCCESS


async def test_a_topic_that_cannot_be_saved_refuses_its_sends_and_piles_up_nothing(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[CommitLog] = []
    load = CommitLog.load

    def noted(log: CommitLog) -> None:
        logs.append(log)
        load(log)

    monkeypatch.setattr(CommitLog, "load", noted)

    def full(_file: TableFile, _table: dict[str, object]) -> bool:
        raise StoreError("the disk is full")

    async with broker() as (_, channel):
        with monkeypatch.context() as patch:
            patch.setattr(TableFile, "save", full)
            answers = [await channel.exchange(send().command(b"x")) for _ in range(3)]
        assert {answer.code for answer in answers} == {ResponseCode.SYSTEM_ERROR}
        assert not logs[0].parts
        await channel.call(send(), b"room again")


async def test_a_stop_answers_those_who_wait(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker() as (running, channel):
        await channel.call(send(), b"first")
        parked = asyncio.create_task(channel.exchange(pull(offset=1, sys_flag=SUBSCRIPTION | SUSPEND).command()))
        released, syncing = Event(), Event()

        def slow(fd: int) -> None:
            syncing.set()
            released.wait(10)
            os.fdatasync(fd)

        replace_sync(monkeypatch, slow)
        sent = asyncio.create_task(channel.exchange(send(queue_id=1).command(b"x")))
        await asyncio.to_thread(syncing.wait, 5)
        stopping = asyncio.create_task(running.stop())
        assert (await parked).code == ResponseCode.PULL_NOT_FOUND
        released.set()
        assert (await sent).code == ResponseCode.SUCCESS
        await stopping


async def test_who_comes_alone_is_written_alone_and_who_comes_together_together(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = 0
    write = CommitLog._write_parts

    def counted(log: CommitLog, *where: Any) -> None:
        nonlocal writes
        writes += 1
        write(log, *where)

    monkeypatch.setattr(CommitLog, "_write_parts", counted)
    async with broker(flushDiskType="ASYNC_FLUSH") as (_, channel):
        for number in range(5):
            await channel.call(send(), b"alone")
            assert writes == number + 1
        await asyncio.gather(*[channel.call(send(), b"together") for _ in range(100)])
        assert writes < 25
        await channel.call(send(), b"alone")
        assert len(await pulled(channel)) == 32


async def test_what_is_dispatched_in_parts_is_seen_as_a_whole(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "DISPATCH_MAX", 2)
    async with broker() as (_, channel):
        waiting = asyncio.create_task(channel.exchange(pull(sys_flag=SUSPEND | SUBSCRIPTION).command()))
        await asyncio.gather(*[channel.call(send(), b"%d" % number) for number in range(9)])
        await waiting
        async with asyncio.timeout(10):
            while len(found := await pulled(channel)) < 9:
                pass
        assert [bytes(record.body) for record in found] == [b"%d" % number for number in range(9)]


async def test_async_flush_syncs_many_pages_soon_and_few_in_the_end(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream's two intervals, shortened: at least four pages each 20 ms, everything each second."""
    syncs: list[float] = []
    loop = asyncio.get_running_loop()
    flushed = asyncio.Event()

    def noted(_fd: int) -> None:
        syncs.append(loop.time())
        loop.call_soon_threadsafe(flushed.set)

    config = {"flushIntervalCommitLog": "20", "flushCommitLogThoroughInterval": "1000"}
    async with broker(flushDiskType="ASYNC_FLUSH", **config) as (_, channel):
        replace_sync(monkeypatch, noted)
        began = loop.time()
        await channel.call(send(), bytes(5 * 4096))
        await asyncio.wait_for(flushed.wait(), 10)
        flushed.clear()
        await channel.call(send(), b"a page is not enough")
        await asyncio.wait_for(flushed.wait(), 10)
        assert syncs[-1] - began >= 0.95  # the tick before the second is over
        assert len(syncs) == 2


async def test_async_flush_begins_to_sync_whatever_is_ten_seconds_old(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock moved by hand, with ticks that do not divide ten seconds: what a power cut can take is no older."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    in_threads: list[asyncio.Future[Any]] = []
    run_in_executor = loop.run_in_executor

    def noted(*what: Any) -> asyncio.Future[Any]:
        in_threads.append(run_in_executor(*what))
        return in_threads[-1]

    monkeypatch.setattr(loop, "run_in_executor", noted)
    syncs = 0

    def counted(_fd: int) -> None:
        nonlocal syncs
        syncs += 1

    async with broker(flushDiskType="ASYNC_FLUSH", flushIntervalCommitLog="600") as (_, channel):
        replace_sync(monkeypatch, counted)
        unsynced: list[float] = []  # when each was acknowledged
        ages: list[float] = []  # of the oldest, when a sync took it
        while len(ages) < 4:
            await channel.call(send(), b"a trickle never makes four pages")
            unsynced.append(now)
            before, now = syncs, now + 0.25
            for _ in range(3):
                await asyncio.sleep(0)  # the timers that are due
            await asyncio.gather(*in_threads)
            in_threads.clear()
            if syncs > before:
                ages.append(now - unsynced[0])
                unsynced.clear()
        assert max(ages) <= 10.0
        assert min(ages[1:]) > 9.0  # and not because syncs come anyway
