"""What a client says of itself in a heartbeat.

    {"clientID":…,"producerDataSet":[{"groupName":…}],
     "consumerDataSet":[{"groupName":…,"consumeType":…,"messageModel":…,"consumeFromWhere":…,"unitMode":…,
                         "subscriptionDataSet":[…]}],
     "heartbeatFingerprint":0,"withoutSub":false}

A fingerprint other than 0 makes it version 2: the subscriptions may then be left out (`withoutSub`).
Invariant: a body that cannot be read raises `ProtocolError`.

Mirrors: HeartbeatData, ConsumerData, ProducerData.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from cometmq.errors import ProtocolError
from cometmq.model.subscription import SubscriptionData
from cometmq.wire import fastjson
from cometmq.wire.bodies.members import read_subscription
from cometmq.wire.bodies.reading import choice, flag, text, whole

CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"
CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"
LITE_SELECTIVE: Final = "LITE_SELECTIVE"


@dataclass(slots=True)
class ConsumerData:
    """One consumer group in a client. The three ways are kept as the client spells them."""

    group: str
    consume_type: str | None = CONSUME_PASSIVELY
    message_model: str | None = CLUSTERING
    consume_from_where: str | None = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


@dataclass(slots=True)
class HeartbeatData:
    """Who lives in one client."""

    client_id: str
    producer_groups: list[str] = field(default_factory=list)
    consumers: list[ConsumerData] = field(default_factory=list)
    fingerprint: int = 0
    without_sub: bool = False

    def encode(self) -> bytes:
        return fastjson.dumps(
            {
                "clientID": self.client_id,
                "consumerDataSet": [
                    {
                        "consumeFromWhere": consumer.consume_from_where,
                        "consumeType": consumer.consume_type,
                        "groupName": consumer.group,
                        "messageModel": consumer.message_model,
                        "subscriptionDataSet": [item.to_json() for item in consumer.subscriptions],
                        "unitMode": consumer.unit_mode,
                    }
                    for consumer in self.consumers
                ],
                "heartbeatFingerprint": self.fingerprint,
                "producerDataSet": [{"groupName": group} for group in self.producer_groups],
                "withoutSub": self.without_sub,
            }
        )


def decode_heartbeat(body: bytes | memoryview, now_ms: int = 0) -> HeartbeatData:
    """Read a heartbeat; `now_ms` is the version of subscriptions that carry none."""
    fields = fastjson.loads(body)
    if not isinstance(fields, dict):
        raise ProtocolError("the heartbeat is not a JSON object")
    try:
        return HeartbeatData(
            client_id=_client_id(fields),
            producer_groups=[_group(item) for item in fields.get("producerDataSet", ())],
            consumers=[_consumer(item, now_ms) for item in fields.get("consumerDataSet", ())],
            fingerprint=whole(fields, "heartbeatFingerprint"),
            without_sub=flag(fields, "withoutSub"),
        )
    except (AttributeError, OverflowError, TypeError, ValueError) as broken:
        raise ProtocolError(f"the heartbeat cannot be read: {broken}") from None


def _consumer(fields: dict[str, Any], now_ms: int) -> ConsumerData:
    return ConsumerData(
        group=_group(fields),
        consume_type=choice(fields, "consumeType"),
        message_model=choice(fields, "messageModel"),
        consume_from_where=choice(fields, "consumeFromWhere"),
        subscriptions=[_subscription(item, now_ms) for item in fields.get("subscriptionDataSet", ())],
        unit_mode=flag(fields, "unitMode"),
    )


def _subscription(fields: dict[str, Any], now_ms: int) -> SubscriptionData:
    if fields.get("topic") is None:
        raise ProtocolError("the heartbeat has a subscription without topic")
    return read_subscription(fields, now_ms)


def _client_id(fields: dict[str, Any]) -> str:
    client_id = text(fields, "clientID")
    if client_id is None:
        raise ProtocolError("the heartbeat has no clientID")
    return client_id


def _group(fields: dict[str, Any]) -> str:
    group = text(fields, "groupName")
    if group is None:
        raise ProtocolError("the heartbeat has a group without groupName")
    return group
