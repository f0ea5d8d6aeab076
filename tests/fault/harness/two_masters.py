"""A master with its slave, which acts for it when it is gone, and another master, as processes in SYNC_FLUSH."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.original import CometNamesrv, JavaBroker
from tests.original.cluster import Kind
from tests.original.process import BrokerProcess

from cometmq.errors import CometError
from cometmq.net.pool import Pool
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply, QueryConsumerOffset

from .warm import WarmBroker

TOPIC, QUEUES = "read-on", 2
A, B = "broker-a", "broker-b"
DEADLINE_S = 90.0
CONF = {
    "mappedFileSizeCommitLog": 16 << 20,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1_000,
    "slaveReadEnable": True,
    "registerNameServerPeriod": 1_000,
    "haSendHeartbeatInterval": 1_000,
}
ROLES: dict[str, dict[str, object]] = {
    "SYNC_MASTER": {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2},
    "ASYNC_MASTER": {"brokerRole": "ASYNC_MASTER"},
}
ACTING = {
    "enableSlaveActingMaster": True,
    "enableRemoteEscape": True,
    "totalReplicas": 2,
    "brokerHeartbeatInterval": 200,
    "syncBrokerMemberGroupPeriod": 200,
    "brokerNotActiveTimeoutMillis": 3_000,
    "messageDelayLevel": "1s 6s",
    "transactionCheckInterval": 500,
    "transactionTimeOut": 500,
}


class Brokers:
    """A master with its slave, and another master, as processes."""

    def __init__(
        self,
        folder: Path,
        running: ExitStack,
        conf: Mapping[str, object] | None = None,
        kinds: tuple[Kind, Kind] = ("comet", "comet"),
        role: str = "SYNC_MASTER",
    ) -> None:
        self._conf = {**CONF, **(conf or {})}
        acting = {"supportActingMaster": True, "notifyMinBrokerIdChanged": True, "scanNotActiveBrokerInterval": 200}
        self.namesrv = CometNamesrv(folder / "namesrv", conf=acting)
        running.callback(self.namesrv.kill)
        self.namesrv.start()
        self.master = self._start(running, folder / "a", A, ROLES[role], kinds[0])
        self.slave = self._start(running, folder / "a-s", A, {"brokerRole": "SLAVE", "brokerId": 1}, kinds[1])
        self.other = self._start(running, folder / "b", B, {})
        self.pool = Pool()

    def _start(
        self, running: ExitStack, folder: Path, name: str, conf: dict[str, object], kind: Kind = "comet"
    ) -> BrokerProcess:
        make = WarmBroker if kind == "comet" else JavaBroker
        broker = make(folder, [self.namesrv.addr], flush="SYNC_FLUSH", conf={**self._conf, **conf}, name=name)
        running.callback(broker.kill)
        return broker.start()

    async def offset(self, broker: BrokerProcess, request: GetMaxOffset | QueryConsumerOffset) -> int:
        channel = await self.pool.channel(broker.addr)
        return OffsetReply.read((await channel.call(request)).ext).offset

    async def make_topic(self) -> None:
        for broker in (self.master, self.other):
            channel = await self.pool.channel(broker.addr)
            await channel.call(CreateTopic(TOPIC, QUEUES, QUEUES, 6, "SINGLE_TAG"))


async def until(holds: Callable[[], Awaitable[bool] | bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while True:
        try:
            done = holds()
            if done if isinstance(done, bool) else await done:
                return
        except CometError:
            pass
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.05)
