"""Which client holds which queue of a group.

A lock is held by one client id, lasts `live_ms` from its last renewal, and is renewed by locking again. It passes to
another client when its holder unlocks or when it has expired, and in no other way: neither a lost connection nor a
silent client frees it sooner, because its holder may still be consuming. In memory only: a restarted broker grants
anew, and clients lock every 20 s.
Bounds: `LOCKS_MAX` locks; beyond them none is granted until some expire.

Mirrors: RebalanceLockManager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cometmq.clock import Clock
from cometmq.model.queue import MessageQueue

log = logging.getLogger("cometmq.broker")

LIVE_MS: Final = 60_000
LOCKS_MAX: Final = 200_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int  # of the monotonic clock


class QueueLocks:
    """All locks, by group and queue."""

    def __init__(self, clock: Clock, live_ms: int = LIVE_MS, locks_max: int = LOCKS_MAX) -> None:
        self._clock = clock
        self._live_ms = live_ms
        self._locks_max = locks_max
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock or renew; returns those that the client holds now."""
        return [queue for queue in queues if self._lock(group, queue, client_id)]

    def _lock(self, group: str, queue: MessageQueue, client_id: str) -> bool:
        now_ms = self._clock.monotonic_ms()
        lock = self._groups.get(group, {}).get(queue)
        if lock is None:
            if not self._has_room():
                return False
            self._groups.setdefault(group, {})[queue] = _Lock(client_id, now_ms)
            self._count += 1
            return True
        if lock.client_id != client_id:
            if not self._is_expired(lock, now_ms):
                return False
            log.info("group %s: %s passes from %s to %s", group, queue, lock.client_id, client_id)
            lock.client_id = client_id
        lock.renewed_ms = now_ms
        return True

    def _has_room(self) -> bool:
        if self._count >= self._locks_max:
            self.forget_expired()
        return self._count < self._locks_max

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Let go of those that the client holds; what others hold stays theirs."""
        held = self._groups.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client_id == client_id:
                del held[queue]
                self._count -= 1
        if not held:
            self._groups.pop(group, None)

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """Who may consume the queue now."""
        lock = self._groups.get(group, {}).get(queue)
        return None if lock is None or self._is_expired(lock, self._clock.monotonic_ms()) else lock.client_id

    def all_expired(self, group: str) -> bool:
        """Does the group hold nothing? One that does consumes in order."""
        now_ms = self._clock.monotonic_ms()
        return all(self._is_expired(lock, now_ms) for lock in self._groups.get(group, {}).values())

    def forget_expired(self) -> None:
        """Drop what nobody holds any more."""
        now_ms = self._clock.monotonic_ms()
        for group, held in list(self._groups.items()):
            kept = {queue: lock for queue, lock in held.items() if not self._is_expired(lock, now_ms)}
            self._count -= len(held) - len(kept)
            if kept:
                self._groups[group] = kept
            else:
                del self._groups[group]

    def __len__(self) -> int:
        return self._count

    def _is_expired(self, lock: _Lock, now_ms: int) -> bool:
        return now_ms - lock.renewed_ms > self._live_ms
