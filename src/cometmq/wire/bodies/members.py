"""Bodies about the members of a group.

Mirrors: GetConsumerListByGroupResponseBody, CheckClientRequestBody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cometmq.errors import ProtocolError
from cometmq.model.subscription import SubscriptionData
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import flag


def encode_consumer_ids(ids: Iterable[str]) -> bytes:
    """`{"consumerIdList":[…]}`"""
    return fastjson.dumps({"consumerIdList": list(ids)})


def decode_consumer_ids(body: bytes | memoryview) -> list[str]:
    fields = fastjson.loads(body)
    found = fields.get("consumerIdList") if isinstance(fields, dict) else None
    return [str(item) for item in found or ()]


def read_subscription(fields: dict[str, Any], now_ms: int = 0) -> SubscriptionData:
    """One subscription; raises what `SubscriptionData.from_json` does, or ProtocolError."""
    return SubscriptionData.from_json({**fields, "classFilterMode": flag(fields, "classFilterMode")}, now_ms)


def decode_checked_subscription(body: bytes | memoryview) -> SubscriptionData | None:
    """The subscription that a client wants checked; None where it names none."""
    if not body:
        return None
    fields = fastjson.loads(body)
    try:
        found = fields.get("subscriptionData")
        return None if found is None else read_subscription(found)
    except (AttributeError, OverflowError, TypeError, ValueError) as broken:
        raise ProtocolError(f"the subscription to check cannot be read: {broken}") from None
