"""What an operator is told of a push consumer: how it runs (307), and how it took a message (309).

Mirrors: ConsumerRunningInfo, ProcessQueueInfo, ConsumeMessageDirectlyResult.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from cometmq.client.assignments import Holding
from cometmq.errors import RetryLater
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import SubscriptionData
from cometmq.wire.bodies.heartbeat import CONSUME_PASSIVELY


class Described(Protocol):
    """What is asked of a consumer."""

    group: str
    is_orderly: bool
    concurrency: int
    start_time_ms: int

    def subscriptions(self) -> Iterator[SubscriptionData]: ...

    @property
    def counters(self) -> dict[str, int]: ...


def running_info(consumer: Described, held: Mapping[MessageQueue, Holding], name_servers: str) -> dict[str, Any]:
    """The fields of ConsumerRunningInfo; the keys of `mqTable` are queues."""
    properties = {
        "PROP_CONSUMEORDERLY": str(consumer.is_orderly).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(consumer.concurrency),
        "PROP_CONSUMER_START_TIMESTAMP": str(consumer.start_time_ms),
        "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
        "PROP_NAMESERVER_ADDR": name_servers,
        "PROP_CLIENT_VERSION": "V5_5_0",
        "consumerGroup": consumer.group,
    }
    return {
        "jstack": "",
        "mqPopTable": {},
        "mqTable": {queue: _queue_info(holding) for queue, holding in held.items()},
        "properties": properties,
        "statusTable": {},
        "subscriptionSet": [item.to_json() for item in consumer.subscriptions()],
        "userConsumerInfo": {name: str(value) for name, value in consumer.counters.items()},
    }


def _queue_info(holding: Holding) -> dict[str, Any]:
    queue = holding.queue
    return {
        "cachedMsgCount": queue.count,
        "cachedMsgMaxOffset": queue.next_offset - 1 if queue.count else 0,
        "cachedMsgMinOffset": queue.committable if queue.count else 0,
        "cachedMsgSizeInMiB": queue.size >> 20,
        "commitOffset": queue.committable,
        "droped": queue.is_dropped,
        "lastConsumeTimestamp": 0,
        "lastLockTimestamp": 0,
        "lastPullTimestamp": 0,
        "locked": True,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


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
