"""Queues in bodies: those a client wants to lock, holds, or is given.

    {"clientId":…,"consumerGroup":…,"mqSet":[{"brokerName":…,"queueId":0,"topic":…}],"onlyThisBroker":false}
    {"lockOKMQSet":[…]}

Invariant: a body that cannot be read raises `ProtocolError`.

Mirrors: LockBatchRequestBody, UnlockBatchRequestBody, LockBatchResponseBody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cometmq.model.queue import MessageQueue
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_list, as_object, flag, text, whole


@dataclass(slots=True)
class QueuesToLock:
    """Who wants which queues, to lock or to unlock them; `only_this_broker` says not to ask its replicas."""

    consumer_group: str | None = None
    client_id: str | None = None
    queues: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False

    def encode(self) -> bytes:
        return fastjson.dumps(
            {
                "clientId": self.client_id,
                "consumerGroup": self.consumer_group,
                "mqSet": [queue_to_json(queue) for queue in self.queues],
                "onlyThisBroker": self.only_this_broker,
            }
        )


def decode_queues_to_lock(body: bytes | memoryview) -> QueuesToLock:
    fields = as_object(fastjson.loads(body), "the body")
    queues = as_list(fields.get("mqSet", []), "mqSet")
    return QueuesToLock(
        text(fields, "consumerGroup"),
        text(fields, "clientId"),
        list(dict.fromkeys(queue_from_json(item) for item in queues)),
        flag(fields, "onlyThisBroker"),
    )


def encode_locked_queues(queues: Iterable[MessageQueue]) -> bytes:
    return fastjson.dumps({"lockOKMQSet": [queue_to_json(queue) for queue in queues]})


def decode_locked_queues(body: bytes | memoryview) -> list[MessageQueue]:
    fields = as_object(fastjson.loads(body), "the body")
    return [queue_from_json(item) for item in as_list(fields.get("lockOKMQSet") or [], "lockOKMQSet")]


def queue_to_json(queue: MessageQueue) -> dict[str, Any]:
    """What is None is left out, as Java leaves it out."""
    fields: dict[str, Any] = {} if queue.broker_name is None else {"brokerName": queue.broker_name}
    fields["queueId"] = queue.queue_id
    return fields if queue.topic is None else fields | {"topic": queue.topic}


def queue_from_json(value: Any) -> MessageQueue:
    fields = as_object(value, "a queue")
    return MessageQueue(text(fields, "topic"), text(fields, "brokerName"), whole(fields, "queueId"))
