"""Both sides, started once for all tests of a module; Java brokers are too busy when idle to keep them longer.

`COMETMQ_DIFFERENTIAL_TWIN=1` runs a second Apache RocketMQ in CometMQ's place: the masks alone must then
explain everything that differs, which is how they are checked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.original import Cluster, CometNamesrv, JavaBroker, JavaNamesrv

from .comparison import Comparison
from .script import Server
from .target import Target

# A cold Java broker answers SYSTEM_BUSY to what waited 200 ms: not what is compared here.
PATIENCE_MS = 10_000
LOCK_KEY = "rocketmq.broker.rebalance.lockMaxLiveTime"
CONF = {
    "waitTimeMillsInSendQueue": PATIENCE_MS,
    "waitTimeMillsInPullQueue": PATIENCE_MS,
    "enablePropertyFilter": "true",
    "messageDelayLevel": "1s 1s 1s 1s 1h 2h",
    "recallMessageEnable": "true",
    "transactionTimeOut": 1_000,
    "transactionCheckInterval": 1_000,
    "transactionCheckMax": 2,
    "enablePopMessageThreshold": "true",
    "popInflightMessageThreshold": 5,
    LOCK_KEY: 2_000,
}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    folder = tmp_path_factory.mktemp("differential")
    twin = bool(os.environ.get("COMETMQ_DIFFERENTIAL_TWIN"))
    with ExitStack() as running, asyncio.Runner() as runner:
        java = _start("java", folder / "java", running)
        comet = _start("java" if twin else "comet", folder / "comet", running)
        yield Comparison(java, comet, runner)


def _start(kind: str, folder: Path, running: ExitStack) -> Target:
    alone = running.enter_context((JavaNamesrv if kind == "java" else CometNamesrv)(folder / "alone"))
    cluster = Cluster("java" if kind == "java" else "comet", folder, conf=CONF)
    if isinstance(cluster.broker, JavaBroker):  # which has no setting for it
        cluster.broker.jvm = (*cluster.broker.jvm, f"-D{LOCK_KEY}={CONF[LOCK_KEY]}")
    running.enter_context(cluster)
    broker = cluster.broker
    addresses: dict[Server, str] = {"namesrv": alone.addr, "broker": broker.addr, "fast": broker.fast_addr}
    return Target(kind, addresses)
