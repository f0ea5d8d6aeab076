"""Messages that retention has deleted: told by name, or passed over where that is asked for; never just missing."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.spark.kit import Server, Stream, numbers_of, read_all, read_tasks, reader_of

from cometmq.errors import OffsetsLost
from cometmq.net.pool import connect
from cometmq.testing.local_cluster import LocalCluster
from cometmq.wire.requests.admin import DeleteExpiredCommitLog
from cometmq.wire.requests.consume import GetMinOffset, OffsetReply

TOPIC = "old"
COUNT = 3_000
SMALL_FILES = {"mappedFileSizeCommitLog": str(256 * 1024), "cleanResourceInterval": "50"}


class Aging:
    """A queue of numbers, whose oldest can be deleted."""

    def __init__(self, cluster: LocalCluster, store: Path) -> None:
        self._cluster = cluster
        self._store = store
        self.options = {"namesrvAddr": cluster.namesrv, "subscribe": TOPIC}

    async def expire(self) -> int:
        """Let half of the log's files be too old, and the broker delete them; says where the queue begins then."""
        files = sorted((self._store / "commitlog").iterdir())
        for path in files[: len(files) // 2]:
            os.utime(path, (0, 0))
        channel = await connect(self._cluster.broker.address)
        try:
            await channel.call(DeleteExpiredCommitLog())
            async with asyncio.timeout(30):
                while True:
                    low = OffsetReply.read((await channel.call(GetMinOffset(TOPIC, 0))).ext).offset
                    if low and not files[len(files) // 2 - 1].exists():
                        return low
                    await asyncio.sleep(0.01)
        finally:
            channel.close()


@asynccontextmanager
async def aging(store: Path) -> AsyncIterator[Aging]:
    async with LocalCluster({**SMALL_FILES, "storePathRootDir": str(store)}) as cluster:
        await cluster.create_topic(TOPIC, 1)
        server = Server("comet", cluster.namesrv)
        await asyncio.to_thread(server.send, TOPIC, range(COUNT), queues=1, size=300)
        yield Aging(cluster, store)


async def lost(act: Callable[[], Any]) -> str:
    with pytest.raises(OffsetsLost) as caught:
        await asyncio.to_thread(act)
    return str(caught.value)


async def test_a_batch_read_from_where_nothing_is_left(tmp_path: Path) -> None:
    async with aging(tmp_path) as queue:
        planned = reader_of(queue.options)
        tasks = await asyncio.to_thread(planned.partitions)
        low = await queue.expire()
        assert 500 < low < COUNT
        asked = {**queue.options, "startingOffsets": json.dumps({TOPIC: {"broker-a": {"0": 5}}})}
        assert f"offsets 5 to {low} of queue 0" in await lost(lambda: read_all(asked))
        rest = list(range(low, COUNT))
        lenient = {"failOnDataLoss": "false"}
        assert numbers_of(await asyncio.to_thread(read_all, {**asked, **lenient})) == rest
        assert numbers_of(await asyncio.to_thread(read_all, queue.options)) == rest  # earliest is what there is
        # Both ends have expired: nothing is left to read, and nothing was mistaken.
        both = {**asked, "endingOffsets": json.dumps({TOPIC: {"broker-a": {"0": 9}}})}
        assert "offsets 5 to" in await lost(lambda: read_all(both))
        assert (await asyncio.to_thread(read_all, {**both, **lenient})).num_rows == 0
        # Planned while they were there, read when they were not.
        assert f"offsets 0 to {low} of queue 0" in await lost(lambda: read_tasks(planned, tasks))
        patient = reader_of({**queue.options, **lenient})
        assert numbers_of(await asyncio.to_thread(read_tasks, patient, tasks)) == rest


async def test_a_stream_that_was_left_behind(tmp_path: Path) -> None:
    async with aging(tmp_path) as queue:
        options = {**queue.options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "500"}
        strict = await asyncio.to_thread(Stream, options)
        assert await asyncio.to_thread(strict.batch) == list(range(500))
        low = await queue.expire()
        assert f"offsets 500 to {low} of queue 0" in await lost(strict.batch)
        lenient = await asyncio.to_thread(Stream, {**options, "failOnDataLoss": "false"}, strict.at)
        batches = await asyncio.to_thread(lenient.rest)
        assert [number for batch in batches for number in batch] == list(range(low, COUNT))
        assert {len(batch) for batch in batches[:-1]} == {500}
