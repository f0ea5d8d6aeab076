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
from cometmq.wire.bodies.reading import flag, whole

CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"
CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"


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
            client_id=_text(fields.get("clientID")) or "",
            producer_groups=[_group(item) for item in fields.get("producerDataSet", ())],
            consumers=[_consumer(item, now_ms) for item in fields.get("consumerDataSet", ())],
            fingerprint=whole(fields, "heartbeatFingerprint"),
            without_sub=flag(fields, "withoutSub"),
        )
    except (AttributeError, OverflowError, TypeError, ValueError) as broken:
        raise ProtocolError(f"the heartbeat cannot be read: {broken}") from None


def _consumer(fields: dict[str, Any], now_ms: int) -> ConsumerData:
    get = fields.get
    return ConsumerData(
        group=_group(fields),
        consume_type=_text(get("consumeType")),
        message_model=_text(get("messageModel")),
        consume_from_where=_text(get("consumeFromWhere")),
        subscriptions=[SubscriptionData.from_json(item, now_ms) for item in get("subscriptionDataSet", ())],
        unit_mode=flag(fields, "unitMode"),
    )


def _group(fields: dict[str, Any]) -> str:
    group = _text(fields.get("groupName"))
    if group is None:
        raise ProtocolError("the heartbeat has a group without groupName")
    return group


def _text(value: Any) -> str | None:
    return None if value is None else fastjson.text_of(value)
