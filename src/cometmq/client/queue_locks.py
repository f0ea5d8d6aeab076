"""Locks of queues at the brokers, without which nothing is consumed orderly.

A broker keeps a lock for 60 s; we ask again every 20 s and believe in it for 30 s. A lock that was lost and came back
`has_changed`: another member may have consumed in between, so what was pulled before is not to be trusted.

Mirrors: RebalanceImpl (lock, lockAll, unlock, unlockAll), ProcessQueue (isLockExpired).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from cometmq.client.instance import ClientInstance
from cometmq.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.wire.bodies.queues import QueuesToLock, decode_locked_queues
from cometmq.wire.requests.members import LockBatchMq, UnlockBatchMq

log = logging.getLogger("cometmq.client")

RELOCK_INTERVAL_S: Final = 20.0
RELOCK_INTERVAL_AFTER_LOSS_S: Final = 1.0
BELIEVED_FOR_S: Final = 30.0
_TIMEOUT_MS: Final = 1_000


class QueueLocks:
    """The locks of one member of a group. `wanted` tells which queues it has; `came_back` hears of changes."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        wanted: Callable[[], Collection[MessageQueue]],
        came_back: Callable[[MessageQueue], None],
    ) -> None:
        self._instance = instance
        self._group = group
        self._wanted = wanted
        self._came_back = came_back
        self._loop = asyncio.get_running_loop()
        self._until: dict[MessageQueue, float] = {}
        self._lost: set[MessageQueue] = set()
        self._changed: set[MessageQueue] = set()

    def holds(self, queue: MessageQueue) -> bool:
        return self._until.get(queue, 0.0) > self._loop.time()

    def has_changed(self, queue: MessageQueue) -> bool:
        return queue in self._changed

    def is_seen_to(self, queue: MessageQueue) -> None:
        """What was pulled before the lock was lost is gone."""
        self._changed.discard(queue)

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Ask the brokers for these; returns those that are ours now. A broker that does not answer changes nothing."""
        got: set[MessageQueue] = set()
        for broker, wanted in _by_broker(queues).items():
            body = QueuesToLock(self._group, self._instance.client_id, wanted).encode()
            asked_at = self._loop.time()
            try:
                answer = await self._instance.call(broker, LockBatchMq(), body, or_any=True, timeout_ms=_TIMEOUT_MS)
                locked = set(decode_locked_queues(answer.body))
            except CometError as fault:
                log.info("group %s: %s did not lock: %s", self._group, broker, fault)
                continue
            for queue in wanted:
                if queue in locked:
                    if queue in self._lost or (queue in self._until and not self.holds(queue)):
                        self._changed.add(queue)
                        self._lost.discard(queue)
                    self._until[queue] = asked_at + BELIEVED_FOR_S
                    got.add(queue)
                elif self._until.pop(queue, None) is not None:
                    self._lost.add(queue)
                    log.warning("group %s: the lock on %s is another's now", self._group, queue)
        return got

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Give these up, so that another member need not wait."""
        for broker, given_up in _by_broker(queues).items():
            for queue in given_up:
                self.forget(queue)
            body = QueuesToLock(self._group, self._instance.client_id, given_up).encode()
            try:
                await self._instance.call(broker, UnlockBatchMq(), body, or_any=True, timeout_ms=_TIMEOUT_MS)
            except CometError as fault:
                log.info("group %s: %s did not unlock: %s", self._group, broker, fault)

    async def unlock_all(self) -> None:
        """Give everything up."""
        await self.unlock(list(self._until))

    def forget(self, queue: MessageQueue) -> None:
        self._until.pop(queue, None)
        self._lost.discard(queue)
        self._changed.discard(queue)

    async def keep(self) -> None:
        """Ask again and again for what we have."""
        while True:
            wanted = set(self._wanted())
            is_whole = all(self.holds(queue) for queue in wanted)
            await asyncio.sleep(RELOCK_INTERVAL_S if is_whole else RELOCK_INTERVAL_AFTER_LOSS_S)
            before = set(self._changed)
            await self.lock(self._wanted())
            for queue in self._changed - before:
                self._came_back(queue)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(str(queue.broker_name), []).append(queue)
    return found
