"""A name server, a master and its slaves in the test's own process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from cometmq.broker.app import Broker, load_settings
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.ha import GetBrokerHaStatus
from cometmq.wire.requests.send import SendMessageV2

SEGMENT = 1 << 16
SMALL = {
    "bindAddress": "127.0.0.1",
    "brokerIP1": "127.0.0.1",
    "flushDiskType": "SYNC_FLUSH",
    "listenPort": "0",
    "mappedFileSizeCommitLog": str(SEGMENT),
    "maxHashSlotNum": "100",
    "maxIndexNum": "1000",
    "haSendHeartbeatInterval": "300",
    "slaveReadEnable": "true",
}


async def until(condition: Callable[[], Any], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        await asyncio.sleep(0.01)


class Group:
    """Brokers of one name. Folders stay when a broker stops, and its port is kept."""

    def __init__(self, folder: Path, closing: AsyncExitStack) -> None:
        self._folder = folder
        self._closing = closing
        self._ports: dict[int, int] = {}
        self.name_server = NameServer(
            NamesrvConfig(
                bind_address="127.0.0.1",
                listen_port=0,
                kv_config_path=str(folder / "kv.json"),
                config_store_path=str(folder / "namesrv.properties"),
            )
        )
        self._channels: dict[str, Channel] = {}

    def store(self, broker_id: int) -> Path:
        return self._folder / f"store-{broker_id}"

    async def start(self, broker_id: int, **keys: str) -> Broker:
        """0 is the master."""
        role = {"brokerRole": "SLAVE"} if broker_id else {}
        own = {
            "namesrvAddr": self.name_server.address,
            "storePathRootDir": str(self.store(broker_id)),
            "brokerId": str(broker_id),
            "listenPort": str(self._ports.get(broker_id, 0)),
        }
        broker = Broker(load_settings(SMALL | own | role | keys))
        await broker.start()
        self._ports[broker_id] = broker.port
        self._closing.push_async_callback(broker.stop)
        return broker

    async def channel(self, broker: Broker) -> Channel:
        channel = self._channels.get(broker.address)
        if channel is None or not channel.is_open:
            channel = self._channels[broker.address] = await connect(broker.address)
            self._closing.callback(channel.close)
        return channel

    async def send(self, broker: Broker, count: int, size: int = 1_000, topic: str = "orders") -> None:
        channel = await self.channel(broker)
        for number in range(count):
            body = b"%08d" % number + b"x" * (size - 8)
            await channel.call(message(topic), body, timeout_ms=20_000)

    async def status(self, broker: Broker) -> dict[str, Any]:
        body = (await (await self.channel(broker)).call(GetBrokerHaStatus())).body
        found: dict[str, Any] = orjson.loads(body)
        return found

    async def caught_up(self, master: Broker, slaves: int = 1) -> None:
        """Until so many slaves have said that they have everything that the master has."""
        deadline = time.monotonic() + 60
        while True:
            status = await self.status(master)
            end = status["masterCommitLogMaxOffset"]
            at = [slave["slaveAckOffset"] for slave in status["haConnectionInfo"]]
            if at == [end] * slaves:
                return
            assert time.monotonic() < deadline, f"the slaves are at {at}, the master at {end}"
            await asyncio.sleep(0.02)

    async def pulled(self, broker: Broker, offset: int, count: int, topic: str = "orders") -> list[Record]:
        """Messages of queue 0 from `offset` on, waited for."""
        channel = await self.channel(broker)
        deadline = time.monotonic() + 60
        while True:
            answer = await channel.exchange(
                PullMessage("consumers", topic, 0, offset, 32, 4, 0, 1_000, 0, "*").command()
            )
            found = list(decode_records(answer.body, check_crc=True)) if answer.body else []
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"{len(found)} messages, code {answer.code}: {answer.remark}"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def group(folder: Path) -> AsyncIterator[Group]:
    async with AsyncExitStack() as closing:
        found = Group(folder, closing)
        await found.name_server.start()
        closing.push_async_callback(found.name_server.stop)
        yield found


def message(topic: str = "orders", **fields: Any) -> SendMessageV2:
    given: dict[str, Any] = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1,
        "flag": 0,
        "properties": "TAGS\x01paid\x02KEYS\x01order-42\x02",
    }
    return SendMessageV2(**given | fields)


def log_bytes(store: Path) -> bytes:
    """The whole log, file after file."""
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))
