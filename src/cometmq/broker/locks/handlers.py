"""Locking and unlocking queues by request.

There are no replicas to ask, so `onlyThisBroker` changes nothing. Mirrors: AdminBrokerProcessor.
"""

from __future__ import annotations

from cometmq.broker.locks.table import QueueLocks
from cometmq.errors import RequestRefused
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
        wanted, group, client_id = _wanted(call)
        call.reply(body=encode_locked_queues(self._locks.lock(group, wanted.queues, client_id)))
        return LATER

    @handles(UnlockBatchMq)
    def unlock(self, request: UnlockBatchMq, call: Call) -> Header:
        wanted, group, client_id = _wanted(call)
        self._locks.unlock(group, wanted.queues, client_id)
        return DONE


def _wanted(call: Call) -> tuple[QueuesToLock, str, str]:
    if not call.body:
        raise RequestRefused("SYSTEM_ERROR", "the request has no body: consumerGroup, clientId and mqSet are expected")
    wanted = decode_queues_to_lock(call.body)
    if wanted.consumer_group is None or wanted.client_id is None:
        raise RequestRefused("SYSTEM_ERROR", "consumerGroup and clientId must be given to lock or unlock queues")
    return wanted, wanted.consumer_group, wanted.client_id
