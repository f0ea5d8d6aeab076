"""Row 16: a stream between master and slave that is cut at every byte, lies about offsets and lengths, or is garbage.

Whatever a master sends, a slave's log stays a byte-equal beginning of the master's, every message in it can be read,
and nothing of a transfer that is cut or wrong is kept.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.fault.harness.rows import Row
from tests.unit.broker.ha_kit import SEGMENT, group, log_bytes, until
from tests.unit.store.kit import HandClock, bodies, open_small, send, settle

from cometmq.broker.acknowledgements import Acknowledgements
from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.ha.config import HaConfig
from cometmq.broker.ha.slave import SlaveSide
from cometmq.net.pool import Pool
from cometmq.store.engine import Store
from cometmq.testing.chaos_proxy import ChaosProxy
from cometmq.wire.ha import Hello, encode_hello, encode_report, encode_transfer_head

FILE_SIZE = 16 << 10
MESSAGES = 600
BODY_AT = 88  # in a record with v4 hosts
FILLER_HEAD = 8  # its size and its mark; what follows has no meaning
SETTINGS: dict[str, Any] = {"mapped_file_size_commit_log": FILE_SIZE, "flush_disk_type": "SYNC_FLUSH"}


class MasterLog:
    """The bytes of a master's log, where its records begin, and what is in them."""

    def __init__(self, folder: Path) -> None:
        store = open_small(folder, **SETTINGS)
        self.starts, self.bodies = [], []
        self.fillers: list[tuple[int, int]] = []  # of files that the next record did not fit into: start and end
        chance = Random(16)
        self.ends = [0]
        for number in range(MESSAGES):
            body = b"%06d" % number * chance.randrange(1, 60)
            placed = send(store, body, keys=f"key-{number}")
            if placed.physical_offset != self.ends[-1]:
                self.fillers.append((self.ends[-1], placed.physical_offset))
            self.ends.append(placed.physical_offset + placed.size)
            self.starts.append(placed.physical_offset)
            self.bodies.append(body)
        settle(store)
        self.end = store.written_offset
        store.close()
        self.data = b"".join(path.read_bytes() for path in sorted((folder / "commitlog").iterdir()))[: self.end]

    def transfer(self, at: int, size: int) -> bytes:
        """Never across the end of a file."""
        size = min(size, FILE_SIZE - at % FILE_SIZE, self.end - at)
        return encode_transfer_head(at, size) + self.data[at : at + size]

    def wholly_before(self, at: int) -> int:
        """Where the last whole record ends that ends before `at`; a filler behind it is not missed."""
        return max(end for end in self.ends if end <= at)

    def counted_up_to(self, at: int) -> int:
        """Where a slave with the bytes before `at` may say it ends: the head of a filler stands for the file's rest."""
        return next((end for start, end in self.fillers if start + FILLER_HEAD <= at <= end), at)

    def judge(self, kept: bytes, at: int, sure: int, believed: int) -> list[str]:
        """What is wrong with a slave that says it ends at `at`, has `kept` before it, and must have what is `sure`."""
        faults = []
        if not sure <= at <= self.counted_up_to(believed):
            faults.append(f"at {at}, expected {sure} to {believed}")
        if kept != self.data[:at]:
            faults.append(f"the bytes before {at} are not the master's")
        return faults


class Slave:
    """A store that follows whoever listens at `address`."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.store: Store = open_small(folder, clock=HandClock(), **SETTINGS)
        self.durability = Durability(
            self.store, Acknowledgements(BrokerConfig()), before_answers=lambda: None, on_arrivals=lambda found: None
        )
        self.pool = Pool()
        config = HaConfig(ha_master_address=address)
        followed = self.store.follow()
        self.side = SlaveSide(
            config, 1, self.store, self.durability, followed, self.pool, HandClock(), again_s=0.0
        )  # fmt: skip
        self.side.start()

    async def stop(self, *, killed: bool = False) -> None:
        await self.side.close()
        await self.durability.close()
        await self.pool.close()
        (self.store.abandon if killed else self.store.close)()

    def bytes_before(self, end: int) -> bytes:
        found = b"".join(path.read_bytes() for path in sorted((self.folder / "commitlog").iterdir()))
        return found[:end]


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, asyncio.Queue[Connection]]]:
    came: asyncio.Queue[Connection] = asyncio.Queue()
    server = await asyncio.start_server(lambda *ends: came.put_nowait(ends), "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    finally:
        server.close()


def faulty(chance: Random, log: MasterLog, at: int, number: int) -> tuple[bytes, int]:
    """What a master sends from `at` on, and how far the slave may believe it."""
    first = log.transfer(at, chance.randrange(1, 2_000))
    good = at + len(first) - 12
    second = log.transfer(good, chance.randrange(1, 2_000)) if good < log.end else b""
    match number % 8:
        case 0:
            wrong = good + chance.choice([-1, 1, 7, -FILE_SIZE, 1 << 40])
            return first + encode_transfer_head(max(wrong, 0), 8) + b"12345678", good
        case 1:
            length = chance.choice([-1, -(1 << 31), (1 << 31) - 1, 4 << 20])
            return first + struct.pack(">qi", good, length) + b"x" * 64, good
        case 2:
            return first + encode_transfer_head(good + 1, 0), good  # a heartbeat of another log
        case 3 if at in log.starts:
            # one byte of the first record is another one: in its size, magic, offset or body
            spoilt = bytearray(log.transfer(at, FILE_SIZE))
            place = 12 + chance.choice([0, 1, 2, 3, 4, 5, 6, 7, 28, 31, 35, BODY_AT, BODY_AT + 5])
            spoilt[place] ^= 1 << chance.randrange(8)
            return bytes(spoilt), at
        case _:
            both = first + second
            cut = number % (len(both) + 1)
            believed = at if cut < len(first) else good if cut < len(both) else good + max(len(second) - 12, 0)
            return both[:cut], believed


async def test_a_slave_keeps_a_byte_equal_prefix_whatever_the_stream_does(quick_folder: Path) -> None:
    log = MasterLog(quick_folder / "master")
    with Row(16, "HA stream cut and garbled", trimmed=2_000, full=50_000) as row:
        async with listening() as (address, came):
            slaves = 0
            slave = Slave(quick_folder / "slave-0", address)
            sure = believed = 0  # whole records that the slave must have, and where its log may end
            for number in row.each():
                reader, writer = await asyncio.wait_for(came.get(), 30)
                (at,) = struct.unpack(">q", await asyncio.wait_for(reader.readexactly(8), 30))
                row.violations += [
                    f"{number}: {fault}" for fault in log.judge(slave.bytes_before(at), at, sure, believed)
                ]
                sent, believed = faulty(row.chance, log, at, number)
                sure = log.wholly_before(believed)
                writer.write(sent)
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 30)  # until the slave has heard everything and hung up
                writer.close()
                if sure == log.end or row.chance.random() < 0.01:
                    await slave.stop(killed=row.chance.random() < 0.5)
                    if sure == log.end:
                        slaves += 1
                        check_whole(slave.folder, log)
                        sure = believed = 0
                        slave = Slave(quick_folder / f"slave-{slaves}", address)
                    else:
                        slave = Slave(slave.folder, address)
                    while not came.empty():
                        came.get_nowait()[1].close()
            await slave.stop()
            row.add(whole_copies=slaves)
    assert slaves, "no slave ever got the whole log"


def check_whole(folder: Path, log: MasterLog) -> None:
    store = open_small(folder, **SETTINGS)
    try:
        assert bodies(store) == log.bodies
        assert store.query("T", "key-7", 10, 0, 1 << 62)
    finally:
        store.close()


# --- the master's end, and two whole brokers


async def opened(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def first_head(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Offset and size of the first transfer."""
    offset, size = struct.unpack(">qi", await asyncio.wait_for(reader.readexactly(12), 30))
    return offset, size


@pytest.mark.parametrize(
    "said",
    [
        encode_report(-1),
        b"GET / HTTP/1.1\r\n\r\n"[:16],
        b"\xc3\x02" + bytes(6),
        encode_report(1 << 40),
        encode_report(0) + encode_report(-5),
    ],
    ids=["a negative offset", "no slave", "a hello of tomorrow", "ahead of us", "a negative report"],
)
async def test_a_master_hangs_up_on_what_it_cannot_serve(tmp_path: Path, said: bytes) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start(0)
        await brokers.send(master, 3)
        reader, writer = await opened(master.ha_address)
        writer.write(said)
        while await asyncio.wait_for(reader.read(1 << 16), 30):
            pass  # until it hangs up
        writer.close()
        assert (await brokers.status(master))["haConnectionInfo"] == []
        await brokers.send(master, 1)


async def test_a_slave_at_0_gets_the_last_file_and_one_that_says_hello_everything(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start(0)
        await brokers.send(master, 200)
        for said, wanted in (
            (encode_report(0), 3 * SEGMENT),
            (encode_hello(Hello(7, from_first=True)) + encode_report(0), 0),
            (encode_hello(Hello(7, from_first=False)) + encode_report(100), 100),
            (encode_report(SEGMENT), SEGMENT),
        ):
            reader, writer = await opened(master.ha_address)
            for at in range(len(said)):  # byte by byte
                writer.write(said[at : at + 1])
                await writer.drain()
            offset, size = await first_head(reader)
            assert (offset, 0 < size <= 32 * 1024) == (wanted, True)
            writer.close()


async def test_logs_that_parted_are_never_mixed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The master lost what its slave has: whether it has written less or more since, the slave keeps its own."""
    async with group(tmp_path) as brokers:
        master = await brokers.start(0)
        slave = await brokers.start(1)
        await brokers.send(master, 10)
        await brokers.caught_up(master)
        await slave.stop()
        await master.stop()
        shutil.copytree(brokers.store(0), tmp_path / "old")
        master, slave = await brokers.start(0), await brokers.start(1)
        await brokers.send(master, 10, size=600)
        await brokers.caught_up(master)
        await slave.stop()
        await master.stop()
        kept = log_bytes(brokers.store(1))

        shutil.rmtree(brokers.store(0))
        shutil.copytree(tmp_path / "old", brokers.store(0))
        master, slave = await brokers.start(0), await brokers.start(1)
        await until(lambda: "we have what it lost" in caplog.text)
        await brokers.send(master, 100, size=300)
        await until(lambda: "the two logs have parted" in caplog.text)
        assert log_bytes(brokers.store(1)) == kept
        assert len(await brokers.pulled(slave, 0, 20)) == 20


async def test_a_slave_that_lagged_catches_up_and_an_empty_one_begins_where_the_master_does(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master, slave = await brokers.start(0), await brokers.start(1)
        await brokers.send(master, 5)
        await brokers.caught_up(master)
        await slave.stop()
        await brokers.send(master, 200)
        slave = await brokers.start(1)
        await brokers.caught_up(master)
        assert log_bytes(brokers.store(0)) == log_bytes(brokers.store(1))
        await slave.stop()
        await master.stop()
        for number in range(2):  # files that retention takes
            (brokers.store(0) / "commitlog" / f"{number * SEGMENT:020d}").unlink()
        shutil.rmtree(brokers.store(1))
        master, slave = await brokers.start(0), await brokers.start(1)
        await brokers.caught_up(master)
        await slave.stop()
        assert min(path.name for path in (brokers.store(1) / "commitlog").iterdir()) == f"{2 * SEGMENT:020d}"


@pytest.mark.parametrize("role", [{}, {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "60000"}])
async def test_a_real_pair_survives_cuts_and_silence_on_the_way(tmp_path: Path, role: dict[str, str]) -> None:
    """A network that cuts often, then swallows everything: nothing is lost, and the two are equal in the end."""
    quick = {"haHousekeepingInterval": "1000"}
    async with group(tmp_path) as brokers:
        master = await brokers.start(0, **quick, **role)
        async with ChaosProxy(master.ha_address) as proxy:
            await brokers.start(1, **quick, haMasterAddress=proxy.address)
            proxy.cut_often(Random(16), 10, 30_000)
            await brokers.send(master, 60)
            await until(lambda: proxy.cuts >= 2, 60)
            proxy.behave()
            await brokers.caught_up(master)
            accepted = proxy.accepted
            proxy.swallows = True
            sending = asyncio.create_task(brokers.send(master, 50))
            await until(lambda: proxy.accepted > accepted, 60)  # the slave has given up the silent connection
            proxy.behave()
            proxy.cut()
            await sending
            await brokers.caught_up(master)
            assert log_bytes(brokers.store(0)) == log_bytes(brokers.store(1))
