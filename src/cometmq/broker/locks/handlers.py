"""Locking and unlocking queues by request.

There are no replicas to ask, so `onlyThisBroker` changes nothing. Mirrors: AdminBrokerProcessor.
"""

from __future__ import annotations

from cometmq.broker.locks.table import QueueLocks
from cometmq.errors import RequestRefused
from cometmq.model.queue import MessageQueue
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire.bodies.queues import QueuesToLock, decode_queues_to_lock, encode_locked_queues
from cometmq.wire.requests.members import LockBatchMq, UnlockBatchMq
from cometmq.wire.schema import Header


class LockHandlers:
    """Answers orderly consumers."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks

    @handles(LockBatchMq)
    def lock(self, request: LockBatchMq, call: Call) -> Later:
        wanted = _wanted(call)
        locked: list[MessageQueue] = []
        if wanted.queues:
            if wanted.consumer_group is None or wanted.client_id is None:
                raise RequestRefused("SYSTEM_ERROR", "consumerGroup and clientId must be given to lock queues")
            locked = self._locks.lock(wanted.consumer_group, wanted.queues, wanted.client_id)
        call.reply(body=encode_locked_queues(locked))
        return LATER

    @handles(UnlockBatchMq)
    def unlock(self, request: UnlockBatchMq, call: Call) -> Header:
        wanted = _wanted(call)
        if wanted.consumer_group is None:
            raise RequestRefused("SYSTEM_ERROR", "consumerGroup must be given to unlock queues")
        if wanted.client_id is not None:  # nobody holds nothing
            self._locks.unlock(wanted.consumer_group, wanted.queues, wanted.client_id)
        return DONE


def _wanted(call: Call) -> QueuesToLock:
    if not call.body:
        raise RequestRefused("SYSTEM_ERROR", "the request has no body: consumerGroup, clientId and mqSet are expected")
    return decode_queues_to_lock(call.body)
