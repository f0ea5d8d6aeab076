"""What an operator is told of a push consumer: how it runs (307), and how it took a message (309).

Mirrors: ConsumerRunningInfo, ProcessQueueInfo, ConsumeMessageDirectlyResult.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Protocol

from cometmq.client.held_queues import HeldQueues
from cometmq.client.pop_loop import PopQueue
from cometmq.client.process_queue import ProcessQueue
from cometmq.errors import RetryLater
from cometmq.model.subscription import SubscriptionData
from cometmq.wire.bodies.heartbeat import CONSUME_PASSIVELY
from cometmq.wire.codes import VERSION_TEXT


class Described(Protocol):
    """What is asked of a consumer."""

    group: str
    is_orderly: bool
    concurrency: int
    start_time_ms: int

    def subscriptions(self) -> Iterator[SubscriptionData]: ...

    @property
    def counters(self) -> dict[str, int]: ...


def running_info(consumer: Described, queues: HeldQueues, name_servers: str) -> dict[str, Any]:
    """The fields of ConsumerRunningInfo; the keys of `mqTable` and `mqPopTable` are queues."""
    held = {queue: holding.queue for queue, holding in queues.held.items()}
    properties = {
        "PROP_CONSUMEORDERLY": str(consumer.is_orderly).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(consumer.concurrency),
        "PROP_CONSUMER_START_TIMESTAMP": str(consumer.start_time_ms),
        "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
        "PROP_NAMESERVER_ADDR": name_servers,
        "PROP_CLIENT_VERSION": VERSION_TEXT,
        "consumerGroup": consumer.group,
    }
    return {
        "jstack": "",
        "mqPopTable": {queue: _pop_info(one) for queue, one in held.items() if isinstance(one, PopQueue)},
        "mqTable": {queue: _queue_info(one, queues) for queue, one in held.items() if isinstance(one, ProcessQueue)},
        "properties": properties,
        "statusTable": {},
        "subscriptionSet": [item.to_json() for item in consumer.subscriptions()],
        "userConsumerInfo": {name: str(value) for name, value in consumer.counters.items()},
    }


def _queue_info(queue: ProcessQueue, queues: HeldQueues) -> dict[str, Any]:
    is_locked = queues.locks is not None and queues.locks.holds(queue.queue)
    return {
        "cachedMsgCount": queue.count,
        "cachedMsgMaxOffset": queue.next_offset - 1 if queue.count else 0,
        "cachedMsgMinOffset": queue.committable if queue.count else 0,
        "cachedMsgSizeInMiB": queue.size >> 20,
        "commitOffset": queue.committable,
        "droped": queue.is_dropped,
        "lastConsumeTimestamp": _wall_ms(queue.last_consumed_s),
        "lastLockTimestamp": int(time.time() * 1000) if is_locked else 0,
        "lastPullTimestamp": _wall_ms(queue.last_pulled_s),
        "locked": is_locked,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def _pop_info(queue: PopQueue) -> dict[str, Any]:
    return {
        "droped": queue.is_dropped,
        "lastPopTimestamp": _wall_ms(queue.last_pulled_s),
        "waitAckCount": queue.count,
    }


def _wall_ms(loop_s: float) -> int:
    """A moment of the loop's clock as the wall's; 0 if it never came."""
    return int((time.time() - asyncio.get_running_loop().time() + loop_s) * 1000) if loop_s else 0


def direct_result(fault: BaseException | None, spent_s: float, is_orderly: bool) -> dict[str, Any]:
    """The fields of ConsumeMessageDirectlyResult."""
    result = "CR_SUCCESS" if fault is None else "CR_LATER" if isinstance(fault, RetryLater) else "CR_THROW_EXCEPTION"
    fields: dict[str, Any] = {
        "autoCommit": True,
        "consumeResult": result,
        "order": is_orderly,
        "spentTimeMills": int(spent_s * 1000),
    }
    return fields if fault is None else fields | {"remark": repr(fault)[:1000]}
