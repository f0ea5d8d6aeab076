"""Locking and unlocking queues by request. In strict mode other replicas are asked too, unless the request says that
only this broker is meant.

Mirrors: AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from cometmq.broker.locks.quorum import Quorum
from cometmq.broker.locks.table import QueueLocks
from cometmq.errors import RequestRefused
from cometmq.model.queue import MessageQueue
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire.bodies.queues import QueuesToLock, decode_queues_to_lock, encode_locked_queues
from cometmq.wire.requests.members import LockBatchMq, UnlockBatchMq
from cometmq.wire.schema import Header


class LockHandlers:
    """Answers orderly consumers."""

    def __init__(self, locks: QueueLocks, quorum: Quorum | None = None) -> None:
        self._locks = locks
        self._quorum = quorum

    @handles(LockBatchMq)
    def lock(self, request: LockBatchMq, call: Call) -> Later | Coroutine[Any, Any, Later]:
        wanted = _wanted(call)
        locked: list[MessageQueue] = []
        if wanted.queues:
            if wanted.consumer_group is None or wanted.client_id is None:
                raise RequestRefused("SYSTEM_ERROR", "consumerGroup and clientId must be given to lock queues")
            locked = self._locks.lock(wanted.consumer_group, wanted.queues, wanted.client_id)
            if self._quorum is not None and not wanted.only_this_broker:
                return self._confirm(self._quorum, wanted, locked, call)
        call.reply(body=encode_locked_queues(locked))
        return LATER

    async def _confirm(self, quorum: Quorum, wanted: QueuesToLock, locked: list[MessageQueue], call: Call) -> Later:
        call.reply(body=encode_locked_queues(await quorum.confirm(wanted, locked)))
        return LATER

    @handles(UnlockBatchMq)
    def unlock(self, request: UnlockBatchMq, call: Call) -> Header | Coroutine[Any, Any, Header]:
        wanted = _wanted(call)
        if wanted.consumer_group is None:
            raise RequestRefused("SYSTEM_ERROR", "consumerGroup must be given to unlock queues")
        if wanted.client_id is not None:  # nobody holds nothing
            self._locks.unlock(wanted.consumer_group, wanted.queues, wanted.client_id)
            if self._quorum is not None and not wanted.only_this_broker:
                return self._unlock_elsewhere(self._quorum, wanted)
        return DONE

    async def _unlock_elsewhere(self, quorum: Quorum, wanted: QueuesToLock) -> Header:
        await quorum.unlock(wanted)
        return DONE


def _wanted(call: Call) -> QueuesToLock:
    if not call.body:
        raise RequestRefused("SYSTEM_ERROR", "the request has no body: consumerGroup, clientId and mqSet are expected")
    return decode_queues_to_lock(call.body)
