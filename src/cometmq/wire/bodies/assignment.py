"""Bodies about which client takes which queues.

    query   {"clientId":…,"consumerGroup":…,"messageModel":"CLUSTERING","strategyName":"AVG","topic":…}
    answer  {"messageQueueAssignments":[{"messageQueue":{…},"mode":"PULL"}]}; `{}` where there is no saying
    mode    {"consumerGroup":…,"mode":"POP","popShareQueueNum":0,"topic":…}

Invariant: a body that cannot be read raises `ProtocolError`.

Mirrors: QueryAssignmentRequestBody, QueryAssignmentResponseBody, SetMessageRequestModeRequestBody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from cometmq.model.queue import MessageQueue
from cometmq.wire import fastjson
from cometmq.wire.bodies.queues import queue_from_json, queue_to_json
from cometmq.wire.bodies.reading import as_list, as_object, choice, text, whole

PULL: Final = "PULL"
POP: Final = "POP"


@dataclass(slots=True)
class AssignmentQuery:
    """A client asks for its queues."""

    topic: str | None
    consumer_group: str | None
    client_id: str | None
    strategy_name: str | None = "AVG"
    message_model: str | None = "CLUSTERING"

    def encode(self) -> bytes:
        return fastjson.dumps(
            {
                "clientId": self.client_id,
                "consumerGroup": self.consumer_group,
                "messageModel": self.message_model,
                "strategyName": self.strategy_name,
                "topic": self.topic,
            }
        )


@dataclass(slots=True)
class RequestMode:
    """How a group consumes a topic."""

    topic: str | None
    consumer_group: str | None
    mode: str | None = PULL
    pop_share_queue_num: int = 0

    def to_json(self) -> dict[str, Any]:
        fields = {
            "consumerGroup": self.consumer_group,
            "mode": self.mode,
            "popShareQueueNum": self.pop_share_queue_num,
            "topic": self.topic,
        }
        return {key: value for key, value in fields.items() if value is not None}


def decode_assignment_query(body: bytes | memoryview) -> AssignmentQuery:
    fields = as_object(fastjson.loads(body), "the body")
    return AssignmentQuery(
        text(fields, "topic"),
        text(fields, "consumerGroup"),
        text(fields, "clientId"),
        text(fields, "strategyName"),
        choice(fields, "messageModel"),
    )


def decode_request_mode(body: bytes | memoryview) -> RequestMode:
    return request_mode_from_json(fastjson.loads(body))


def request_mode_from_json(value: Any) -> RequestMode:
    """An unknown mode counts as none, and that as pulling."""
    fields = as_object(value, "the message request mode")
    mode = choice(fields, "mode") if "mode" in fields else PULL
    return RequestMode(
        text(fields, "topic"),
        text(fields, "consumerGroup"),
        mode if mode in (PULL, POP) else None,
        whole(fields, "popShareQueueNum"),
    )


def encode_assignment(queues: Iterable[MessageQueue] | None, mode: str | None) -> bytes:
    """The answer; None means that the client keeps what it has."""
    if queues is None:
        return b"{}"
    how = {} if mode is None else {"mode": mode}
    return fastjson.dumps({"messageQueueAssignments": [{"messageQueue": queue_to_json(q)} | how for q in queues]})


def decode_assignment(body: bytes | memoryview) -> list[tuple[MessageQueue, str | None]] | None:
    fields = as_object(fastjson.loads(body), "the body")
    found = fields.get("messageQueueAssignments")
    if found is None:
        return None
    items = [as_object(item, "an assignment") for item in as_list(found, "messageQueueAssignments")]
    return [(queue_from_json(item.get("messageQueue")), text(item, "mode")) for item in items]
