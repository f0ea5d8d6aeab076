"""Locks that count only if most replicas grant them (`lockInStrictMode`), so that a slave that acts for its master
gives no queue to a second client.

A broker grants for itself first, then asks the other members of its group for what it granted, each for itself alone
(`onlyThisBroker`). A queue is locked if `totalReplicas / 2 + 1` of them granted it; who does not answer has not.
With one replica there is nobody to ask.

Mirrors: AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from typing import Final

from cometmq.broker.acting.group import BrokerGroup
from cometmq.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.net.pool import Pool
from cometmq.wire.bodies.queues import QueuesToLock, decode_locked_queues
from cometmq.wire.requests.members import LockBatchMq, UnlockBatchMq

log = logging.getLogger("cometmq.broker")

ASK_MS: Final = 1_000


class Quorum:
    """Asks the other members of the group."""

    def __init__(self, group: BrokerGroup, replicas: int) -> None:
        self._group = group
        self._needed = replicas // 2 + 1
        self._pool = Pool()

    async def confirm(self, wanted: QueuesToLock, granted: list[MessageQueue]) -> list[MessageQueue]:
        """Of what this broker granted, what most replicas grant."""
        if self._needed <= 1:
            return granted
        asked = replace(wanted, queues=granted, only_this_broker=True).encode()
        answers = await asyncio.gather(*(self._lock(address, asked) for address in self._group.others))
        votes = Counter(granted)
        for locked in answers:
            votes.update(locked)
        return [queue for queue in granted if votes[queue] >= self._needed]

    async def _lock(self, address: str, asked: bytes) -> list[MessageQueue]:
        try:
            channel = await self._pool.channel(address, timeout_ms=ASK_MS)
            return decode_locked_queues((await channel.call(LockBatchMq(), asked, timeout_ms=ASK_MS)).body)
        except CometError as fault:
            log.warning("%s locked nothing: %s", address, fault)
            return []

    async def unlock(self, wanted: QueuesToLock) -> None:
        """Let all others unlock."""
        asked = replace(wanted, only_this_broker=True).encode()
        await asyncio.gather(*(self._unlock(address, asked) for address in self._group.others))

    async def _unlock(self, address: str, asked: bytes) -> None:
        try:
            channel = await self._pool.channel(address, timeout_ms=ASK_MS)
            await channel.call(UnlockBatchMq(), asked, timeout_ms=ASK_MS)
        except CometError as fault:
            log.warning("%s unlocked nothing: %s", address, fault)

    async def close(self) -> None:
        await self._pool.close()
