"""Rows 5, 9 and 10 on real processes, in both flush modes: a sync that fails once, a full disk, a slow disk.

Under SYNC_FLUSH no send is answered as good that is not on the disk; reads go on; a full disk heals without a restart.
Times are judged as the matrix says in full numbers only: trimmed ones are run beside everything else.
"""

from __future__ import annotations

import asyncio
import errno
import json
import random
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.bodies.kv import decode_kv_table
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.admin import CreateTopic, GetBrokerRuntimeInfo, GetTopicConfig
from cometmq.wire.requests.consume import QueryConsumerOffset, UpdateConsumerOffset

from .harness.capabilities import miss, needs
from .harness.keys import wrong_keys
from .harness.ledger import Ledger
from .harness.restarting import start_again
from .harness.rows import Row, share
from .harness.sick_broker import SickBroker
from .harness.steady import Reader, p99_ms, reading, resident_mib, sending
from .harness.traffic import TIMEOUT_MS, Traffic, pull
from .harness.warm import WarmBroker

pytestmark = pytest.mark.timeout(300)

FULL = share() is not None
SMALL = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 100, "maxIndexNum": 1_000}
NOT_AVAILABLE = int(ResponseCode.SERVICE_NOT_AVAILABLE)
FLUSH_DISK_TIMEOUT = int(ResponseCode.FLUSH_DISK_TIMEOUT)
FLUSHES = {"SYNC_FLUSH": "", "ASYNC_FLUSH": ", ASYNC_FLUSH"}  # and what a row is called

FENCED_WITHIN_MS = 100 if FULL else 5_000

DELAY_S_MIN, DELAY_S_MAX = 0.2, 10.0
PULLS_MIN = 1_000 if FULL else 50
PHASE_S = 65.0 if FULL else 4.0
NOISE_MS = 5.0  # of the machine
MEMORY_MIB_MAX = 32

DISK_SIZE = 8 << 20
REFUSED_WITHIN_S = 1.0 if FULL else 10.0
FULL_PULLS = 100 if FULL else 20
DISK_IS_FULL = "disk is full"
FULL_FIRST = ("log", "index", "tables")


async def send_all(traffic: Traffic, channel: Channel, count: int, size: int = 0) -> list[int]:
    return await asyncio.gather(*(traffic.send(channel, size) for _ in range(count)))


@pytest.mark.parametrize("flush", FLUSHES)
async def test_a_sync_that_fails_once(tmp_path: Path, flush: str) -> None:
    """After it nothing is acknowledged, though the disk says that all is well; a restart makes the store good again.

    Under ASYNC_FLUSH what was acknowledged before the sync was tried is there, too: the system has not crashed.
    """
    with Row(5, f"fdatasync fails once, then succeeds{FLUSHES[flush]}", trimmed=1, full=20) as row:
        fenced_ms: list[float] = []
        for number in row.each():
            with SickBroker(tmp_path / str(number), flush=flush, conf=SMALL) as broker:
                traffic = Traffic(Ledger())
                channel, watcher = [await connect(broker.addr, timeout_ms=TIMEOUT_MS) for _ in range(2)]
                row.violations += [f"good disk: {code}" for code in await send_all(traffic, channel, 50) if code]
                broker.disk(sync_errno=errno.EIO)
                watching = asyncio.create_task(seen_fenced(watcher))
                doomed = set(await send_all(traffic, channel, 50))
                fenced_ms.append((await watching - broker.failed_at()) * 1000)
                # Who waits for that very sync is refused; who waits for none may have been told before it.
                if doomed - ({0, NOT_AVAILABLE} if flush == "ASYNC_FLUSH" else {NOT_AVAILABLE}):
                    row.violations.append(f"those whose sync failed were answered {doomed}")
                if fenced_ms[-1] > FENCED_WITHIN_MS:
                    row.violations.append(f"the store was fenced {fenced_ms[-1]:.0f} ms after the failed sync")
                codes: list[int] = []
                for _ in range(5):
                    codes += await send_all(traffic, channel, 20)
                if set(codes) != {NOT_AVAILABLE}:
                    row.violations.append(f"after the failed sync: {codes}")
                if not await pull(channel, traffic.queues[0], 0):
                    row.violations.append("nothing can be read after the failed sync")
                channel.close()
                watcher.close()
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
                row.add(refused=traffic.refusals.get(NOT_AVAILABLE, 0))
        row.numbers["fenced_ms_max"] = round(max(fenced_ms), 1)


async def seen_fenced(channel: Channel) -> float:
    """When the alarm was seen by who asks all the time."""
    async with asyncio.timeout(30):
        while True:
            table = decode_kv_table((await channel.call(GetBrokerRuntimeInfo())).body)
            if table["cometmq.store.fenced"] == "1" and table["cometmq.store.state"] == "fenced":
                return time.monotonic()


@pytest.mark.parametrize(("flush", "full"), [("SYNC_FLUSH", 8), ("ASYNC_FLUSH", 4)])
async def test_a_slow_disk(tmp_path: Path, flush: str, full: int) -> None:
    """FLUSH_DISK_TIMEOUT, not SEND_OK, but for those who asked not to wait; reads do not wait, memory does not grow.

    A broker with a quick disk does the same beside it, so that whatever else this machine does at a time slows both.
    """
    conf = {**SMALL, "syncFlushTimeout": 50, "flushIntervalCommitLog": 20}
    answer = FLUSH_DISK_TIMEOUT if flush == "SYNC_FLUSH" else 0
    with (
        Row(10, f"every fdatasync takes seconds{FLUSHES[flush]}", trimmed=1, full=full) as row,
        SickBroker(tmp_path / "slow", flush=flush, conf=conf) as broker,
        SickBroker(tmp_path / "quick", flush=flush, conf=conf) as twin,
    ):
        async with served(broker, row.chance) as (traffic, channel, reader), served(twin, row.chance) as beside:
            async with sending(traffic, channel), sending(*beside[:2]):  # until both have what they need in any case
                await phase([reader, beside.reader], 1.0, 50)
            own_before, whole_before = resident_mib(broker.pid)
            rounds: list[dict[str, float]] = []
            for number in row.each():
                delay_s = DELAY_S_MIN * (DELAY_S_MAX / DELAY_S_MIN) ** (number / max(row.count - 1, 1)) if FULL else 2.5
                broker.disk(sync_delay_s=delay_s)
                async with sending(*beside[:2]), sending(traffic, channel) as codes:
                    slow, quick = await phase([reader, beside.reader], PHASE_S, PULLS_MIN)
                    own, _ = resident_mib(broker.pid)
                slow_ms, quick_ms = p99_ms(slow), p99_ms(quick)
                if set(codes) != {answer}:
                    row.violations.append(f"with a sync of {delay_s:.1f} s sends were answered {codes}")
                # Trimmed, others use this machine too: only waiting for the disk itself counts as waiting.
                if slow_ms > max(2 * max(quick_ms, NOISE_MS), 0 if FULL else 800 * delay_s):
                    row.violations.append(
                        f"99 % of pulls took {slow_ms} ms beside a sync of {delay_s:.1f} s, {quick_ms} ms without"
                    )
                if own > own_before + MEMORY_MIB_MAX:
                    row.violations.append(f"the broker had {own_before} MiB, and {own} with a sync of {delay_s:.1f} s")
                rounds.append(
                    {
                        "delay_s": round(delay_s, 2),
                        "pulls": len(slow),
                        "slow_p99_ms": slow_ms,
                        "base_pulls": len(quick),
                        "base_p99_ms": quick_ms,
                        "own_mib": own,
                    }
                )
                row.add(sent_beside_slow_syncs=codes.total())
                broker.disk()
                await well_again(traffic, channel)
            own_after, whole_after = resident_mib(broker.pid)
        row.violations += reader.faults + beside.reader.faults
        row.numbers["rounds"] = rounds
        row.numbers["resident_mib"] = {
            "before": whole_before, "after": whole_after, "own before": own_before, "own after": own_after,
        }  # fmt: skip
        row.violations += await traffic.check(broker.addr)
        broker.kill()
        twin.kill()


class Served(NamedTuple):
    """What a broker is used by."""

    traffic: Traffic
    channel: Channel
    reader: Reader


@asynccontextmanager
async def served(broker: SickBroker, chance: random.Random) -> AsyncIterator[Served]:
    traffic = Traffic(Ledger())
    channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
    await send_all(traffic, channel, 50)
    async with reading(traffic, broker.addr, chance) as reader:
        yield Served(traffic, channel, reader)
    channel.close()


async def phase(readers: list[Reader], seconds: float, pulls: int) -> list[list[float]]:
    """Let the readers read for so long, and so often; how long they waited each time."""
    firsts = [len(reader.waits_s) for reader in readers]
    await asyncio.sleep(seconds)
    for reader, first in zip(readers, firsts, strict=True):
        await reader.has_pulled(first + pulls - len(reader.waits_s))
    return [reader.waits_s[first:] for reader, first in zip(readers, firsts, strict=True)]


async def well_again(traffic: Traffic, channel: Channel) -> None:
    async with asyncio.timeout(60):
        while await traffic.send(channel):
            pass


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
    """Sends are refused with SERVICE_NOT_AVAILABLE, reads go on, and space makes it well again, without a restart.

    In turns the log finds no room for its next segment; queues and index find none while the log has some; tables, too.
    """
    with (
        Row(9, f"disk full, and free again, {kind}{FLUSHES[flush]}", trimmed=3, full=25) as row,
        small_disk(tmp_path / "disk", kind) as disk,
    ):
        for number in row.each():
            conf = {
                **SMALL,
                # Whether it looks how full the disk is, or learns it from the calls that fail.
                "cleanResourceInterval": 3_600_000 if number % 2 else 200,
                "cleanFileForciblyEnable": False,
                "flushIntervalConsumeQueue": 50,
                "flushConsumeQueueThoroughInterval": 200,
                "flushConsumerOffsetInterval": 100,
            }
            broker = WarmBroker(tmp_path / str(number), [], flush=flush, conf=conf, store=disk / str(number))
            cycle = FullDisk(row, broker, disk)
            with broker:
                await cycle.run(FULL_FIRST[number % 3])
            row.violations += [f"cycle {number}: {fault}" for fault in cycle.faults]
            empty(disk)
        if not row.numbers.get("acknowledged_beside_a_full_disk"):
            row.violations.append("nothing was acknowledged and indexed while queues and index found no room")


class FullDisk:
    """One time that the disk is filled and freed."""

    def __init__(self, row: Row, broker: WarmBroker, disk: Path) -> None:
        self.row = row
        self.broker = broker
        self.ballast = disk / "ballast"
        self.traffic = Traffic(Ledger())
        self.faults: list[str] = []
        self.topics: list[str] = []
        self.committed = 0

    async def run(self, full_first: str) -> None:
        traffic, broker = self.traffic, self.broker
        channel = await connect(broker.addr, timeout_ms=TIMEOUT_MS)
        await send_all(traffic, channel, 50)
        async with reading(traffic, broker.addr, self.row.chance) as reader:
            await reader.has_pulled(20)
            self.ballast.write_bytes(bytes(DISK_SIZE * 3 // 10))
            if full_first != "log":
                fill(self.ballast)
            if full_first == "tables":
                await self._change_tables(channel)
            before = traffic.acknowledged
            await self._send_until_full(channel)
            if full_first == "index":
                self.row.add(acknowledged_beside_a_full_disk=traffic.acknowledged - before)
            fill(self.ballast)
            await self._change_tables(channel)
            before = len(reader.waits_s)
            while len(reader.waits_s) < before + FULL_PULLS and not reader.faults:
                self._judge(await self._timed_sends(channel))
            self.ballast.unlink()
            if not await heals(traffic, channel):
                self.faults.append("sends are refused though there is space")
            await self._tables_are_saved()
            self.row.add(pulls=len(reader.waits_s))
        self.faults += reader.faults + await traffic.check(broker.addr)
        self.faults += [f"refused with {remark!r}" for remark in traffic.remarks if DISK_IS_FULL not in remark]
        self.faults += await wrong_keys(broker.addr, traffic)
        channel.close()
        if not broker.running:
            self.faults.append("the broker died")
        broker.kill()
        start_again(broker, self.row)
        found = await traffic.check(broker.addr) + await wrong_keys(broker.addr, traffic) + await self._lost_tables()
        self.faults += [f"after a kill: {fault}" for fault in found]
        broker.kill()
        self.row.add(refused=traffic.refusals.get(NOT_AVAILABLE, 0), acknowledged=traffic.acknowledged)

    async def _timed_sends(self, channel: Channel) -> list[int]:
        began = time.monotonic()
        codes = await send_all(self.traffic, channel, 4, 10_000)
        waited_s = time.monotonic() - began
        if any(codes):
            slowest_ms = round(max(self.row.numbers.get("refusal_ms_max", 0), waited_s * 1000), 1)
            self.row.numbers["refusal_ms_max"] = slowest_ms
            if waited_s > REFUSED_WITHIN_S:
                self.faults.append(f"the refusal took {waited_s:.1f} s")
        return codes

    def _judge(self, codes: list[int], *, may_be_good: bool = False) -> None:
        if set(codes) - ({0, NOT_AVAILABLE} if may_be_good else {NOT_AVAILABLE}):
            self.faults.append(f"a full disk was answered {codes}")

    async def _send_until_full(self, channel: Channel) -> None:
        for _ in range(2_000):
            codes = await self._timed_sends(channel)
            self._judge(codes, may_be_good=True)
            if any(codes):
                return
        self.faults.append("the disk was never full")

    async def _change_tables(self, channel: Channel) -> None:
        """What cannot be saved now: a topic by an admin, one by its first send, an offset."""
        for name in (f"made{len(self.topics)}", f"sent{len(self.topics)}"):
            self.topics.append(name)
        made, sent = self.topics[-2:]
        answer = await channel.exchange(CreateTopic(made, 1, 1, 6, "SINGLE_TAG", "TBW102").command())
        if answer.code != NOT_AVAILABLE or DISK_IS_FULL not in (answer.remark or ""):
            self.faults.append(f"a topic that cannot be saved was answered {answer.code} {answer.remark}")
        other = Traffic(Ledger(), topic=sent)
        self._judge(await send_all(other, channel, 1))
        self.faults += [f"refused with {remark!r}" for remark in other.remarks if DISK_IS_FULL not in remark]
        self.committed += 7
        queue = self.traffic.queues[0]
        commit = UpdateConsumerOffset(queue[0], "readers", queue[1], self.committed)
        await channel.call(commit)

    async def _tables_are_saved(self) -> None:
        """Nobody changes anything any more, and nobody starts the broker again."""
        config = self.broker.store / "config"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            topics = rows_of(config / "topics.json", "topicConfigTable")
            offsets = rows_of(config / "consumerOffset.json", "offsetTable").get(f"{self.traffic.topic}@readers", {})
            if set(self.topics) <= set(topics) and offsets.get("0") == self.committed:
                return
            await asyncio.sleep(0.05)
        self.faults.append("topics or offsets are not saved though there is space")

    async def _lost_tables(self) -> list[str]:
        channel = await connect(self.broker.addr, timeout_ms=TIMEOUT_MS)
        answers = {name: (await channel.exchange(GetTopicConfig(name).command())).code for name in self.topics}
        queue = self.traffic.queues[0]
        offset = (await channel.call(QueryConsumerOffset(*queue, "readers"))).ext["offset"]
        channel.close()
        lost = [f"the topic {name} is gone: {code}" for name, code in answers.items() if code]
        return lost + ([] if int(offset) == self.committed else [f"committed {self.committed}, found {offset}"])


def rows_of(path: Path, table: str) -> dict[str, Any]:
    """What is saved; nothing while the file is being replaced."""
    try:
        rows: dict[str, Any] = json.loads(path.read_bytes())[table]
    except FileNotFoundError:
        return {}
    return rows


def fill(path: Path) -> None:
    """Take the disk's last byte."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


async def heals(traffic: Traffic, channel: Channel) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if await traffic.send(channel) == 0:
            return True
        await asyncio.sleep(0.1)
    return False
