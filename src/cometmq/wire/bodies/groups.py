"""Group configurations, one or many.

Invariant: what is read here can be saved: numbers fit Java's types, and nothing is nested too deep to be written.

Mirrors: SubscriptionGroupConfig, SubscriptionGroupList.
"""

from __future__ import annotations

from typing import Any, Final

from cometmq.errors import ProtocolError
from cometmq.model.group import CUSTOMIZED_RETRIES_MS, EXPONENTIAL_RETRIES, RETRY_KINDS, GroupConfig
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_list, as_object, as_whole, flag, whole

_INTS: Final = ("retryQueueNums", "retryMaxTimes", "groupSysFlag", "consumeTimeoutMinute")
_FLAGS: Final = (
    "consumeEnable",
    "consumeFromMinEnable",
    "consumeBroadcastEnable",
    "consumeMessageOrderly",
    "notifyConsumerIdsChangedEnable",
)
_LONGS: Final = ("brokerId", "whichBrokerWhenConsumeSlowly")
_NESTED_MAX: Final = 16


def decode_group(body: bytes | memoryview) -> GroupConfig | None:
    """One configuration; None where the body is empty."""
    return _group(fastjson.loads(body)) if body else None


def decode_groups(body: bytes | memoryview) -> list[GroupConfig]:
    """`{"groupConfigList":[…]}`"""
    if not body:
        raise ProtocolError("the body is empty: groupConfigList is expected")
    fields = as_object(fastjson.loads(body), "the body")
    return [_group(item) for item in as_list(fields.get("groupConfigList"), "groupConfigList")]


def _group(value: Any) -> GroupConfig:
    fields = as_object(value, "a group configuration")
    for keys, bits in ((_INTS, 32), (_LONGS, 64)):
        for key in keys:
            if fields.get(key) is not None:
                as_whole(fields[key], key, bits=bits)
    for key in _FLAGS:
        if fields.get(key) is not None:
            fields[key] = flag(fields, key)
    if fields.get("attributes") is not None:
        as_object(fields["attributes"], "attributes")
    if fields.get("groupRetryPolicy") is not None:
        fields["groupRetryPolicy"] = _retry_policy(as_object(fields["groupRetryPolicy"], "groupRetryPolicy"))
    if fields.get("subscriptionDataSet") is not None:
        as_list(fields["subscriptionDataSet"], "subscriptionDataSet")
    if _depth(fields) > _NESTED_MAX:
        raise ProtocolError(f"a group configuration is nested deeper than {_NESTED_MAX}")
    return GroupConfig.from_json(fields)


def _retry_policy(fields: dict[str, Any]) -> dict[str, Any]:
    """A policy as Java would write it again: without what it does not know, and with the defaults of a part."""
    made: dict[str, Any] = {}
    kind = fields.get("type", RETRY_KINDS[0])
    if kind in RETRY_KINDS:
        made["type"] = kind
    if fields.get("exponentialRetryPolicy") is not None:
        part = as_object(fields["exponentialRetryPolicy"], "exponentialRetryPolicy")
        made["exponentialRetryPolicy"] = {
            key: whole(part, key, bits=64) if key in part else default for key, default in EXPONENTIAL_RETRIES.items()
        }
    if fields.get("customizedRetryPolicy") is not None:
        part = as_object(fields["customizedRetryPolicy"], "customizedRetryPolicy")
        delays = part.get("next", list(CUSTOMIZED_RETRIES_MS))
        made["customizedRetryPolicy"] = (
            {} if delays is None else {"next": [as_whole(one, "next", bits=64) for one in as_list(delays, "next")]}
        )
    return made


def _depth(value: Any) -> int:
    """How deep a parsed value is nested; stops counting once it is too deep."""
    level, depth = [value], 0
    while level and depth <= _NESTED_MAX:
        depth += 1
        level = [item for outer in level for item in _inside(outer)]
    return depth


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
