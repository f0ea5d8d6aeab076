"""Masters, a slave and a name server in the test's own process, each to be stopped and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cometmq.broker.app import Broker, load_settings
from cometmq.errors import CometError
from cometmq.model import properties
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.pool import Pool
from cometmq.wire.command import Command
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply, PullMessage
from cometmq.wire.requests.send import SendMessageV2
from cometmq.wire.schema import Header

A, SLAVE, B = "broker-a", "broker-a-s", "broker-b"
SUBSCRIBE = 4
DEADLINE_S = 30.0
SMALL = {
    "bindAddress": "127.0.0.1",
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": str(1 << 20),
    "maxHashSlotNum": "100",
    "maxIndexNum": "1000",
    "messageDelayLevel": "1s 2s 3s 4s",
    "registerNameServerPeriod": "1000",
    "haSendHeartbeatInterval": "500",
    "haHousekeepingInterval": "2000",
}
ACTING = {
    "enableSlaveActingMaster": "true",
    "enableRemoteEscape": "true",
    "slaveReadEnable": "true",
    "brokerHeartbeatInterval": "100",
    "syncBrokerMemberGroupPeriod": "100",
    "brokerNotActiveTimeoutMillis": "1000",
}


class Group:
    """`broker-a` with its slave, and `broker-b`."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._folder = folder
        self._settings = {**SMALL, **settings}
        self.name_server = NameServer(
            NamesrvConfig(
                listen_port=0,
                kv_config_path=str(folder / "kv.json"),
                scan_not_active_broker_interval=100,
                support_acting_master=True,
                notify_min_broker_id_changed=True,
            )
        )
        self.running: dict[str, Broker] = {}
        self._ports: dict[str, int] = {}
        self.pool = Pool()

    async def start(self, name: str, **more: str) -> Broker:
        """`broker-a`, `broker-a-s` or `broker-b`."""
        is_slave = name.endswith("-s")
        values = {
            **self._settings,
            "namesrvAddr": self.name_server.address,
            "brokerName": name.removesuffix("-s"),
            "brokerId": "1" if is_slave else "0",
            "brokerRole": "SLAVE" if is_slave else "ASYNC_MASTER",
            "storePathRootDir": str(self._folder / name),
            "listenPort": str(self._ports.get(name, 0)),
            **more,
        }
        broker = Broker(load_settings(values))
        await broker.start()
        self._ports[name] = broker.port
        self.running[name] = broker
        return broker

    async def stop(self, name: str) -> None:
        await self.running.pop(name).stop()

    async def ask(self, name: str, request: Header, body: bytes = b"") -> Command:
        channel = await self.pool.channel(self.running[name].address)
        return await channel.call(request, body)


@asynccontextmanager
async def group(folder: Path, **settings: str) -> AsyncIterator[Group]:
    made = Group(folder, settings)
    await made.name_server.start()
    try:
        yield made
    finally:
        for name in sorted(made.running, reverse=True):
            await made.stop(name)
        await made.pool.close()
        await made.name_server.stop()


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for a condition; a peer that is not there yet does not hold it."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                if await holds():
                    return
            except CometError:
                pass
            await asyncio.sleep(0.05)


async def send(brokers: Group, name: str, body: bytes, topic: str = "T", **more: str) -> None:
    text = properties.render({"UNIQ_KEY": body.decode(), **more})
    await brokers.ask(name, SendMessageV2("p", topic, "TBW102", 1, 0, 0, time.time_ns() // 10**6, 0, text), body)


async def said(caplog: pytest.LogCaptureFixture, words: str) -> None:
    async def is_said() -> bool:
        return any(words in one.getMessage() for one in caplog.records)

    await until(is_said, words)


async def make_topic(brokers: Group, *names: str) -> None:
    for name in names:
        await brokers.ask(name, CreateTopic("T", 1, 1, 6, "SINGLE_TAG"))


async def count(brokers: Group, name: str, topic: str = "T") -> int:
    return OffsetReply.read((await brokers.ask(name, GetMaxOffset(topic, 0))).ext).offset


async def bodies(brokers: Group, name: str, topic: str = "T") -> list[bytes]:
    answer = await exchange(brokers, name, PullMessage("look", topic, 0, 0, 32, SUBSCRIBE, 0, 0, 0, "*"))
    return [record.body for record in decode_records(answer.body)]


async def exchange(brokers: Group, name: str, request: PullMessage) -> Command:
    channel = await brokers.pool.channel(brokers.running[name].address)
    return await channel.exchange(request.command(), timeout_ms=20_000)
