"""Topics of batches whose first messages reach a slave before their settings do: the slave has the same queues."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from cometmq.net.pool import connect
from cometmq.wire.batch import encode_batch
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.send import SendMessageV2

from .harness.pair import caught_up, start_pair
from .harness.traffic import TIMEOUT_MS

pytestmark = pytest.mark.timeout(120)

TOPICS = 12
THREE = encode_batch((0, b"%d" % number, b"") for number in range(3))


async def test_new_topics_of_batches(tmp_path: Path) -> None:
    with ExitStack() as running:
        master, slave = start_pair(tmp_path, running, {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2})
        channel = await connect(master.addr, timeout_ms=TIMEOUT_MS)
        await channel.call(send("warm", 0), b"both are up", timeout_ms=TIMEOUT_MS)
        await caught_up(master, slave)
        for number in range(TOPICS):
            topic = f"batches-{number}"
            await channel.call(CreateTopic(topic, 1, 1, 6, "SINGLE_TAG", attributes="+queue.type=BatchCQ"))
            await channel.call(send(topic, number), b"alone, and nothing in it tells its topic", timeout_ms=TIMEOUT_MS)
            await channel.call(send(topic, number, batch=True), THREE, timeout_ms=TIMEOUT_MS)
        await caught_up(master, slave)
        channel.close()
        for broker in (slave, master):
            broker.stop()
        for kind, wanted in (("batchconsumequeue", TOPICS), ("consumequeue", 1)):
            ours, theirs = queue_files(slave.store / kind), queue_files(master.store / kind)
            assert ours == theirs
            assert len([name for name in theirs if name.startswith(("batches-", "warm"))]) == wanted


def send(topic: str, number: object, *, batch: bool = False) -> SendMessageV2:
    given = f"UNIQ_KEY\x01{topic}{number}{batch}\x02"
    return SendMessageV2("producers", topic, "TBW102", 1, 0, 0, 1, 0, given, batch=batch)


def queue_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("*/*/*"))}
