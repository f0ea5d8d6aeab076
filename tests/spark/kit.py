"""Servers to read from, and readers driven without Spark: planning and reading are plain calls."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from cometmq import Message, Producer
from cometmq.client.instance import ClientInstance
from cometmq.client.options import ClientOptions
from cometmq.model.queue import MessageQueue
from cometmq.spark.source import RocketSource
from cometmq.spark.stream import StreamReader
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply

_numbers = itertools.count(1)


class Server:
    """A cluster of either kind."""

    def __init__(self, kind: str, namesrv: str) -> None:
        self.kind = kind
        self.namesrv = namesrv

    def topic(self, queues: int = 4, **attributes: str) -> str:
        """A new topic that no other test uses."""
        return self.make(f"spark-{next(_numbers)}", queues, **attributes)

    def make(self, name: str, queues: int, **attributes: str) -> str:
        async def run() -> None:
            async with Producer("spark-tests", namesrv=self.namesrv) as producer:
                await producer.create_topic(name, queues=queues, attributes=attributes or None)

        asyncio.run(run())
        return name

    def send(
        self, topic: str, numbers: Sequence[int], *, queues: int = 4, size: int = 0, broker: str = "broker-a"
    ) -> None:
        """A message for each number, number n to queue n % queues; a multiple of 3 is tagged `three`."""

        async def run() -> None:
            async with Producer("spark-tests", namesrv=self.namesrv) as producer:
                for queue in range(queues):
                    own = [number for number in numbers if number % queues == queue]
                    target = MessageQueue(topic, broker, queue)
                    for at in range(0, len(own), 500):
                        await producer.send_batch(
                            [message(topic, number, size) for number in own[at : at + 500]], queue=target
                        )
                if numbers:
                    await _visible(self.namesrv, topic)

        asyncio.run(run())

    def options(self, **given: object) -> dict[str, str]:
        return {"namesrvAddr": self.namesrv, **{name: str(value) for name, value in given.items()}}


def message(topic: str, number: int, size: int = 0) -> Message:
    tags = "three" if number % 3 == 0 else "other"
    return Message(
        topic, b"%d" % number + b" " * size, tags=tags, keys=[f"key-{number}"], properties={"number": str(number)}
    )


async def _visible(namesrv: str, topic: str) -> None:
    """Java makes messages visible a moment after it has acknowledged them: wait until ends stand still."""
    instance = await ClientInstance.join(ClientOptions.of(namesrv))
    try:
        await instance.route(topic)
        before: list[int] = []
        while True:
            ends = []
            for queue in instance.readable_queues(topic):
                answer = await instance.call(str(queue.broker_name), GetMaxOffset(topic, queue.queue_id))
                ends.append(OffsetReply.read(answer.ext).offset)
            if ends == before:
                return
            before = ends
            await asyncio.sleep(0.2)
    finally:
        await instance.leave()


def source(options: Mapping[str, str]) -> RocketSource:
    return RocketSource(CaseInsensitiveDict(options))


def reader_of(options: Mapping[str, str]) -> DataSourceReader:
    made = source(options)
    return made.reader(made.schema())


def read_all(options: Mapping[str, str]) -> pyarrow.Table:
    """What a batch read gives, all tasks one after the other."""
    reader = reader_of(options)
    return read_tasks(reader, reader.partitions())


def read_tasks(reader: Any, tasks: Sequence[InputPartition]) -> pyarrow.Table:
    batches = [batch for task in tasks for batch in reader.read(task)]
    return pyarrow.Table.from_batches(batches) if batches else pyarrow.table({"body": pyarrow.array([], "binary")})


def numbers_of(table: pyarrow.Table) -> list[int]:
    """The numbers of the messages, sorted; twice if one came twice."""
    return sorted(int(body) for body in table.column("body").to_pylist())


class Stream:
    """What Spark does with a reader: offsets go through JSON, and a batch is run if the offset is another text."""

    def __init__(self, options: dict[str, str], start: dict[str, Any] | None = None) -> None:
        made = source(options)
        reader = made.streamReader(made.schema())
        assert isinstance(reader, StreamReader)
        self.reader = reader
        self.at = self.reader.initialOffset() if start is None else start
        self.limit: ReadLimit = self.reader.getDefaultReadLimit()

    def batch(self) -> list[int] | None:
        """The numbers of the next batch; None if there is none."""
        start = json.loads(json.dumps(self.at))
        end = self.reader.latestOffset(start, self.limit)
        if json.dumps(end) == json.dumps(self.at):
            return None
        self.at = json.loads(json.dumps(end))
        return numbers_of(self.read(start, self.at))

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> pyarrow.Table:
        made, arguments = self.reader.__reduce__()  # tasks have a reader of their own
        return read_tasks(made(*arguments), self.reader.partitions(start, end))

    def rest(self) -> list[list[int]]:
        found = []
        while (batch := self.batch()) is not None:
            found.append(batch)
        return found
