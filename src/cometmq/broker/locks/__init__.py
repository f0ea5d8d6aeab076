"""Locks on queues for consumers that keep their order.

    table.py      who holds which queue, and for how long
    quorum.py     what other replicas grant
    handlers.py   LOCK_BATCH_MQ, UNLOCK_BATCH_MQ

The table is part of the core: a group that holds locks consumes in order, which retries want to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cometmq.broker.housekeeping import Job
from cometmq.broker.locks.handlers import LockHandlers
from cometmq.broker.locks.quorum import Quorum

if TYPE_CHECKING:
    from cometmq.broker.core import Core

FORGETTING_EVERY_S = 30.0


def install(core: Core) -> None:
    """Answer who locks and unlocks."""
    quorum = None
    if core.config.lock_in_strict_mode:
        quorum = Quorum(core.group, core.config.total_replicas)
        core.closing.push_async_callback(quorum.close)
    core.routes.add(LockHandlers(core.locks, quorum))
    core.jobs.append(Job("forgetting expired queue locks", FORGETTING_EVERY_S, core.locks.forget_expired))
