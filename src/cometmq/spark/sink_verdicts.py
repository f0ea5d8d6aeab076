"""Telling brokers how half messages end, in the order of their rows, in requests of `CHUNK`.

Whoever tells it has a producer of the group that is named in them. An end may be repeated; what could not be ended as
asked is counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

from cometmq.client.many_ends import end_many
from cometmq.client.producer import Producer
from cometmq.client.transaction import Decision
from cometmq.errors import CometError, TopicNotFound
from cometmq.spark.sink_clients import may_pass, tries
from cometmq.spark.sink_manifest import Attempt
from cometmq.wire.bodies.positions import Position
from cometmq.wire.requests.extensions import Ended

CHUNK: Final = 1024  # half messages in one request
AT_ONCE: Final = 8  # attempts whose ends are under way together
END_TIMEOUT_MS: Final = 30_000


class Verdicts:
    """Ends attempts of one group."""

    def __init__(self, producer: Producer, group: str, retry_ms: int) -> None:
        self._producer = producer
        self._group = group
        self._retry_ms = retry_ms

    async def tell(self, decision: Decision, attempts: Iterable[tuple[Attempt, str]]) -> Counter[Ended]:
        """End all of these attempts, each with its mark; returns how many ended how."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(attempt: Attempt, mark: str) -> Counter[Ended]:
            async with gate:
                return await self._tell_attempt(decision, attempt, mark)

        tasks = [asyncio.create_task(one(attempt, mark)) for attempt, mark in attempts]
        try:
            return sum(await asyncio.gather(*tasks), Counter())
        finally:
            for task in tasks:
                task.cancel()

    async def _tell_attempt(self, decision: Decision, attempt: Attempt, mark: str) -> Counter[Ended]:
        ended: Counter[Ended] = Counter()
        for broker, chunk in attempt.chunks(CHUNK):
            async for one in tries(self._retry_ms, _may_pass):
                with one:
                    ended.update(await self._tell_chunk(decision, attempt, mark, broker, chunk))
        return ended

    async def _tell_chunk(
        self, decision: Decision, attempt: Attempt, mark: str, broker: str, chunk: list[Position]
    ) -> list[Ended]:
        instance = self._producer.instance
        for topic in attempt.topics:  # so that there is a connection to where they are
            await instance.writable_queues(topic)
        return await end_many(instance, broker, self._group, decision, chunk, mark=mark, timeout_ms=END_TIMEOUT_MS)


def _may_pass(fault: CometError) -> bool:
    """Topics of half messages exist, though no name server may know them for a moment."""
    return may_pass(fault) or isinstance(fault, TopicNotFound)
