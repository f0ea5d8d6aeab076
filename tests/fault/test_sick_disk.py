"""Rows 5, 9 and 10 on real processes, in both flush modes: a sync that fails once, a full disk, a slow disk.

Under SYNC_FLUSH no send is answered as good that is not on the disk; reads go on; a full disk heals without a restart.
"""

from __future__ import annotations

import asyncio
import errno
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.bodies.kv import decode_kv_table
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.admin import GetBrokerRuntimeInfo

from .harness.capabilities import miss, needs
from .harness.ledger import Ledger
from .harness.restarting import start_again
from .harness.rows import Row, share
from .harness.sick_broker import SickBroker
from .harness.traffic import TIMEOUT_MS, Traffic, pull
from .harness.warm import WarmBroker

pytestmark = pytest.mark.timeout(300)

SMALL = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 100, "maxIndexNum": 1_000}
NOT_AVAILABLE = int(ResponseCode.SERVICE_NOT_AVAILABLE)
DISK_SIZE = 8 << 20
FLUSHES = {"SYNC_FLUSH": "", "ASYNC_FLUSH": ", ASYNC_FLUSH"}  # and what a row is called


async def send_all(traffic: Traffic, channel: Channel, count: int, size: int = 300) -> list[int]:
    return await asyncio.gather(*(traffic.send(channel, size) for _ in range(count)))


@pytest.mark.parametrize("flush", FLUSHES)
async def test_a_sync_that_fails_once(tmp_path: Path, flush: str) -> None:
    """After it nothing is acknowledged, though the disk says that all is well; a restart makes the store good again.

    Under ASYNC_FLUSH what was acknowledged before the sync was tried is there, too: the system has not crashed.
    """
    with Row(5, f"fdatasync fails once, then succeeds{FLUSHES[flush]}", trimmed=1, full=20) as row:
        for number in row.each():
            with SickBroker(tmp_path / str(number), flush=flush, conf=SMALL) as broker:
                traffic = Traffic(Ledger())
                channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
                row.violations += [f"good disk: {code}" for code in await send_all(traffic, channel, 50) if code]
                broker.disk(sync_errno=errno.EIO)
                codes = await send_all(traffic, channel, 50)
                if flush == "ASYNC_FLUSH":
                    await sync_was_tried(channel)
                row.violations += await not_fenced(channel)
                acknowledged = traffic.acknowledged
                for _ in range(5):
                    codes += await send_all(traffic, channel, 20)
                if (
                    traffic.acknowledged != acknowledged
                    or set(codes) - {0, NOT_AVAILABLE}
                    or NOT_AVAILABLE not in codes
                ):
                    row.violations.append(f"after the failed sync: {codes}, {traffic.acknowledged} acknowledged")
                if not await pull(channel, traffic.queues[0], 0):
                    row.violations.append("nothing can be read after the failed sync")
                channel.close()
                broker.kill()
                broker.disk()
                start_again(broker, row)
                row.violations += await traffic.check(broker.addr)
                channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
                row.violations += [
                    f"after the restart: {code}" for code in await send_all(traffic, channel, 20) if code
                ]
                channel.close()
                broker.kill()
                row.add(refused=codes.count(NOT_AVAILABLE))


async def not_fenced(channel: Channel) -> list[str]:
    """The alarm: who asks right after the first refusal sees it."""
    began = time.monotonic()
    table = decode_kv_table((await channel.call(GetBrokerRuntimeInfo())).body)
    if table["cometmq.store.fenced"] != "1" or table["cometmq.store.state"] != "fenced":
        return [f"{time.monotonic() - began:.3f} s after the failed sync the store is {table['cometmq.store.state']}"]
    return []


async def sync_was_tried(channel: Channel) -> None:
    async with asyncio.timeout(30):
        while decode_kv_table((await channel.call(GetBrokerRuntimeInfo())).body)["cometmq.store.fenced"] != "1":
            pass


@pytest.mark.parametrize("flush", FLUSHES)
async def test_a_slow_disk(tmp_path: Path, flush: str) -> None:
    """FLUSH_DISK_TIMEOUT, not SEND_OK, but for those who asked not to wait; reads do not wait for the disk."""
    conf = {**SMALL, "syncFlushTimeout": 300}
    answer = int(ResponseCode.FLUSH_DISK_TIMEOUT) if flush == "SYNC_FLUSH" else 0
    with (
        Row(10, f"every fdatasync takes seconds{FLUSHES[flush]}", trimmed=1, full=20) as row,
        SickBroker(tmp_path, flush=flush, conf=conf) as broker,
    ):
        traffic = Traffic(Ledger())
        channel, reader = [await connect(broker.addr, timeout_ms=TIMEOUT_MS) for _ in range(2)]
        await send_all(traffic, channel, 50)
        quick_s = await slowest_pull_s(reader, traffic)
        for _ in row.each():
            delay_s = 2.5 if share() is None else row.chance.uniform(1, 10)
            broker.disk(sync_delay_s=delay_s)
            sending = asyncio.create_task(send_all(traffic, channel, 100))
            slow_s = await slowest_pull_s(reader, traffic)
            codes = set(await sending)
            if codes != {answer}:
                row.violations.append(f"with a sync of {delay_s:.1f} s sends were answered {codes}")
            # Others use this machine too: only waiting for the disk itself counts as waiting.
            if slow_s > max(2 * quick_s, 0.8 * delay_s):
                row.violations.append(f"a pull took {slow_s:.3f} s beside a sync of {delay_s:.1f} s")
            broker.disk()
            async with asyncio.timeout(60):
                while (await send_all(traffic, channel, 1)) != [0]:
                    pass
        row.violations += await traffic.check(broker.addr)
        channel.close()
        reader.close()
        broker.kill()


async def slowest_pull_s(channel: Channel, traffic: Traffic) -> float:
    slowest_s = 0.0
    for number in range(100):
        began = time.monotonic()
        assert await pull(channel, traffic.queues[number % len(traffic.queues)], 0)
        slowest_s = max(slowest_s, time.monotonic() - began)
        await asyncio.sleep(0.01)
    return slowest_s


@contextmanager
def small_disk(folder: Path, kind: str) -> Iterator[Path]:
    """A file system of a few megabytes: in memory, or ext4 in a file."""
    needs("mount")
    folder.mkdir()
    if kind == "tmpfs":
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "none", str(folder)]
    else:
        needs("mkfs.ext4")
        image = folder.with_suffix(".image")
        with image.open("wb") as file:
            file.truncate(DISK_SIZE)
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", str(image)], check=True)
        mount = ["mount", "-o", "loop", str(image), str(folder)]
    if subprocess.run(mount, check=False).returncode:
        miss(f"mount {kind}")  # root of a container may not
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize(("kind", "flush"), [("tmpfs", "SYNC_FLUSH"), ("ext4", "SYNC_FLUSH"), ("tmpfs", "ASYNC_FLUSH")])
async def test_a_full_disk(tmp_path: Path, kind: str, flush: str) -> None:
    """Sends are refused with SERVICE_NOT_AVAILABLE, reads go on, and space makes it well again, without a restart."""
    conf = {**SMALL, "cleanResourceInterval": 200, "cleanFileForciblyEnable": False, "flushIntervalConsumeQueue": 50}
    with (
        Row(9, f"disk full, and free again, {kind}{FLUSHES[flush]}", trimmed=1, full=25) as row,
        small_disk(tmp_path / "disk", kind) as disk,
    ):
        broker = WarmBroker(tmp_path / "broker", [], flush=flush, conf=conf, store=disk / "store")
        with broker:
            traffic = Traffic(Ledger())
            channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
            await send_all(traffic, channel, 50)
            for number in row.each():
                ballast = disk / "ballast"
                ballast.write_bytes(bytes(DISK_SIZE * 3 // 10))
                await fill(row, traffic, channel, number)
                for queue in traffic.queues:
                    if not await pull(channel, queue, 0):
                        row.violations.append(f"cycle {number}: {queue} cannot be read while the disk is full")
                # As much as the log took must go, or the next cycle would find the disk full of it.
                ballast.unlink()
                row.violations += [f"cycle {number}: {fault}" for fault in await traffic.check(broker.addr)]
                if not await heals(traffic, channel):
                    row.violations.append(f"cycle {number}: sends are refused though there is space")
                    break
                if number + 1 < row.count:
                    channel.close()
                    broker.kill()  # and a disk that is empty again
                    for path in sorted((disk / "store").rglob("*"), reverse=True):
                        path.rmdir() if path.is_dir() else path.unlink()
                    start_again(broker, row)
                    traffic = Traffic(Ledger())
                    channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
                    await send_all(traffic, channel, 50)
            if not broker.running:
                row.violations.append("the broker died")
            channel.close()
            broker.kill()
            start_again(broker, row)
            row.violations += [f"after a kill: {fault}" for fault in await traffic.check(broker.addr)]
            broker.kill()


async def fill(row: Row, traffic: Traffic, channel: Channel, number: int) -> None:
    """Send until the disk is full; the refusal comes with its own code, and at once."""
    for _ in range(2_000):
        began = time.monotonic()
        codes = await send_all(traffic, channel, 4, 10_000)
        if any(codes):
            waited_s = time.monotonic() - began
            row.add(refused=sum(1 for code in codes if code))
            if set(codes) - {0, NOT_AVAILABLE}:
                row.violations.append(f"cycle {number}: a full disk was answered {codes}")
            if waited_s > 10:
                row.violations.append(f"cycle {number}: the refusal took {waited_s:.1f} s")
            return
    row.violations.append(f"cycle {number}: the disk was never full")


async def heals(traffic: Traffic, channel: Channel) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if await traffic.send(channel) == 0:
            return True
        await asyncio.sleep(0.1)
    return False
