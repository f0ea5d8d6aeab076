"""A broker as a process, what its topics hold, and Spark in this process: what the tests of the sink stand on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.original.comet import CometBroker, CometNamesrv

from cometmq.model.sysflag import READ_WRITE
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply, PullMessage

QUEUES = 4
QUICK_CHECKS = {"transactionCheckInterval": "500", "transactionTimeOut": "500", "transactionOpBatchInterval": "100"}


class Served:
    """A name server and a broker that can be killed."""

    def __init__(self, namesrv: CometNamesrv, broker: CometBroker) -> None:
        self.namesrv = namesrv
        self.broker = broker

    @property
    def address(self) -> str:
        return self.namesrv.addr

    def create(self, topic: str, queues: int = QUEUES) -> None:
        async def create(channel: Channel) -> None:
            await channel.call(CreateTopic(topic, queues, queues, READ_WRITE, "SINGLE_TAG", "TBW102"))

        self._with(create)

    def records(self, topic: str, queues: int = QUEUES) -> list[Record]:
        """Everything that consumers can see, queue by queue."""

        async def read(channel: Channel) -> list[Record]:
            return [record for queue in range(queues) async for record in _records(channel, topic, queue)]

        return self._with(read)

    def numbers(self, topic: str, queues: int = QUEUES) -> list[int]:
        """The bodies alone, which are numbers: of a million records the rest would fill the memory."""

        async def read(channel: Channel) -> list[int]:
            return [int(record.body) for queue in range(queues) async for record in _records(channel, topic, queue)]

        return self._with(read)

    def count(self, topic: str, queues: int = 1) -> int:
        async def count(channel: Channel) -> int:
            answers = [await channel.call(GetMaxOffset(topic, queue)) for queue in range(queues)]
            return sum(OffsetReply.read(answer.ext).offset for answer in answers)

        return self._with(count)

    def open_halves(self, topic: str) -> int:
        """How many half messages for a topic are open, as the broker has written it down last; -1 if it has not."""
        path = self.broker.store / "config" / "transactionMetrics"
        try:
            counts = json.loads(path.read_text())["transactionCount"]
        except (OSError, ValueError):
            return -1
        return int(counts.get(topic, {}).get("count", 0))

    def _with(self, act):  # type: ignore[no-untyped-def]
        async def run():  # type: ignore[no-untyped-def]
            channel = await connect(self.broker.addr)
            try:
                return await act(channel)
            finally:
                channel.close()

        return asyncio.run(run())


async def _records(channel: Channel, topic: str, queue: int) -> AsyncIterator[Record]:
    count = 0
    while True:
        pull = PullMessage("sink_tests", topic, queue, count, 1000, 4, 0, 0, 0, subscription="*")
        answer = await channel.exchange(pull.command())
        if answer.code != ResponseCode.SUCCESS:
            return
        for record in decode_records(answer.body):
            yield record
            count += 1


@contextmanager
def served(folder: Path, flush: str = "ASYNC_FLUSH", **settings: str) -> Iterator[Served]:
    conf = {
        "brokerClusterName": "sink",
        "autoCreateTopicEnable": "false",
        "mappedFileSizeCommitLog": 64 << 20,
        "maxHashSlotNum": 100_000,
        **settings,
    }
    with CometNamesrv(folder / "namesrv") as namesrv:
        broker = CometBroker(folder / "broker", [namesrv.addr], flush=flush, conf={**QUICK_CHECKS, **conf})
        with broker:
            yield Served(namesrv, broker)


def until(done: Callable[[], bool]) -> None:
    """Wait for something that comes by itself."""
    limit = time.monotonic() + 60
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.02)
