"""A master whose slaves are gone: what it refuses, what it stores, and what it says; both brokers alike."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.original import Cluster

from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.send import SendMessageV2

pytestmark = pytest.mark.timeout(120)

ACTING = {
    "brokerRole": "SYNC_MASTER",
    "enableSlaveActingMaster": True,
    "totalReplicas": 3,
    "inSyncReplicas": 3,
    "minInSyncReplicas": 1,
    "waitTimeMillsInSendQueue": 10_000,
}
PROPERTIES = {"waits": "TAGS\x01a\x02", "does not wait": "WAIT\x01false\x02"}

Answer = tuple[int, str | None, str | None]


def test_only_who_waits_is_refused(tmp_path: Path) -> None:
    with ExitStack() as running:
        clusters = [running.enter_context(Cluster(kind, tmp_path / kind, conf=ACTING)) for kind in ("java", "comet")]
        java, comet = (asyncio.run(ask(cluster.broker.addr)) for cluster in clusters)
    assert comet == java
    assert java == {
        "waits": (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough", None),
        "does not wait": (ResponseCode.SUCCESS, None, "0"),
    }


async def ask(address: str) -> dict[str, Answer]:
    """Code, remark and queue offset by what was sent."""
    channel = await connect(address)
    found = {}
    for name, given in PROPERTIES.items():
        request = SendMessageV2("producers", "orders", "TBW102", 4, 0, 0, 1, 0, given)
        answer = await channel.exchange(request.command(b"a message"), timeout_ms=20_000)
        found[name] = answer.code, answer.remark or None, answer.ext.get("queueOffset")
    channel.close()
    return found
