"""What a broker says of itself (28): counts that were counted, and a store whose state can be seen."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.test_send_and_pull import pulled, send

from cometmq.broker.app import Broker, load_settings
from cometmq.broker.handlers.runtime_info import lasting, readable
from cometmq.broker.statistics import Rates, Reads, Sample, WriteTimes
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.store.fs import OsFs
from cometmq.wire.bodies.kv import decode_kv_table
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.admin import GetBrokerRuntimeInfo


async def told(channel: Channel) -> dict[str, str]:
    return decode_kv_table((await channel.call(GetBrokerRuntimeInfo())).body)


def state(table: dict[str, str]) -> tuple[str, str]:
    return table["cometmq.store.state"], table["cometmq.store.fenced"]


async def until(channel: Channel, wanted: tuple[str, str]) -> None:
    async with asyncio.timeout(10):
        while state(await told(channel)) != wanted:
            pass


async def test_counts_are_what_happened(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        before = await told(channel)
        assert state(before) == ("writable", "0")
        assert (before["putMessageTimesTotal"], before["msgPutTotalTodayNow"]) == ("1", "0")
        assert before["commitLogMinOffset"] == "-1"
        for _ in range(3):
            await channel.call(send(), b"x" * 100)
        assert len(await pulled(channel)) == 3
        table = await told(channel)
        assert table["msgPutTotalTodayNow"] == "3"
        assert table["msgGetTotalTodayNow"] == "3"
        assert int(table["putMessageSizeTotal"]) == int(table["commitLogMaxOffset"]) > 300
        assert float(table["putMessageAverageSize"]) == int(table["putMessageSizeTotal"]) / 3
        assert table["dispatchBehindBytes"] == "0"
        assert table["remainHowManyDataToFlush"] == "0 B"
        assert table["brokerActive"] == "true"


async def test_a_failed_sync_is_seen_at_once_and_a_restart_ends_it(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"safe")
        healthy = OsFs.sync

        def fail(_fs: OsFs, _fd: int) -> None:
            raise OSError(5, os.strerror(5))

        monkeypatch.setattr(OsFs, "sync", fail)
        assert (await channel.exchange(send().command(b"lost"))).code == ResponseCode.SERVICE_NOT_AVAILABLE
        monkeypatch.setattr(OsFs, "sync", healthy)
        table = await told(channel)
        assert state(table) == ("fenced", "1")
        assert "sync" in table["cometmq.store.why"]
        failed = int(table["putMessageFailedTimes"])
        assert failed >= 1
        await channel.exchange(send().command(b"late"))
        assert int((await told(channel))["putMessageFailedTimes"]) == failed + 1
    async with broker() as (_, channel):
        table = await told(channel)
        assert state(table) == ("writable", "0")
        assert table["cometmq.store.why"] == ""


async def test_a_nearly_full_disk_is_seen_and_heals(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(cleanResourceInterval="20", cleanFileForciblyEnable="false") as (_, channel):
        healthy = OsFs.used_ratio
        monkeypatch.setattr(OsFs, "used_ratio", lambda fs, path: 0.97)
        await until(channel, ("disk full", "0"))
        assert "the disk is full: " in (await told(channel))["cometmq.store.why"]
        monkeypatch.setattr(OsFs, "used_ratio", healthy)
        await until(channel, ("writable", "0"))


async def test_a_slave_follows(tmp_path: Path) -> None:
    keys = {"brokerRole": "SLAVE", "brokerId": "1", "listenPort": "0", "storePathRootDir": str(tmp_path)}
    slave = Broker(load_settings(keys))
    await slave.start()
    channel = await connect(slave.address)
    try:
        table = await told(channel)
        assert state(table) == ("following", "0")
        assert table["brokerActive"] == "false"
    finally:
        channel.close()
        await slave.stop()


def test_rates_want_their_whole_window() -> None:
    rates = Rates(WriteTimes())
    for second in range(61):
        rates.take(Sample(float(second), put=second * 5, found=second, missed=second * 2, messages=0))
    assert rates.per_second("put") == [5.0, 5.0, None]
    assert rates.per_second("found", "missed") == [3.0, 3.0, None]


def test_write_times_are_those_of_the_minute_before() -> None:
    times = WriteTimes()
    assert times.classes() is None
    assert times.percentile_ms(0.99) == 0
    for ms in (0, 0, 5, 10, 700, 60_000):
        times.add(ms / 1000)
    assert times.longest_ms == 60_000
    assert times.classes() is None
    times.turn_over()
    assert times.classes() == (
        "[<=0ms]:2 [0~10ms]:1 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:1 [1~2s]:0 [2~3s]:0 "
        "[3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 "
    )
    assert times.percentile_ms(0.5) == 5
    assert times.percentile_ms(0.999) == 10_000
    times.turn_over()
    assert times.percentile_ms(0.99) == 0


def test_reads_that_find_nothing_are_counted_apart() -> None:
    reads = Reads()
    reads.note(0)
    reads.note(7)
    assert (reads.found, reads.missed, reads.messages) == (1, 1, 7)


def test_texts_are_those_of_the_originals_tools() -> None:
    assert lasting(((3 * 24 + 4) * 60 + 5) * 60_000 + 6_999) == "[ 3 days, 4 hours, 5 minutes, 6 seconds ]"
    assert [readable(size) for size in (0, 1023, 1024, 1536, 252 << 30)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "252.0 GiB",
    ]  # fmt: skip
