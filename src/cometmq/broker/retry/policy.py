"""How long a message waits before it is tried again, by the policy of its group.

    CUSTOMIZED     the n-th of a list; the default list is that of the delay levels, from its third entry on
    EXPONENTIAL    initial × multiplier to the power of n, up to a maximum

A policy that is missing, or lacks its own part, is the default list. The broker keeps the policy of a group and hands
it out; who applies it is the proxy that pops for the group. Send-back (36) speaks in delay levels and does not ask.

Mirrors: GroupRetryPolicy, CustomizedRetryPolicy, ExponentialRetryPolicy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cometmq.model.group import CUSTOMIZED_RETRIES_MS, EXPONENTIAL_RETRIES

_FIRST: Final = 2  # the first two entries are not for retries, as with delay levels
_POWER_MAX: Final = 32
_LONG_MAX: Final = (1 << 63) - 1


def next_delay_ms(policy: Mapping[str, Any] | None, reconsume_times: int) -> int:
    """The pause before the next try of a message that was tried again `reconsume_times` times already."""
    times = max(reconsume_times, 0)
    kind = (policy or {}).get("type", "CUSTOMIZED")
    if kind == "EXPONENTIAL" and (exponential := _part(policy, "exponentialRetryPolicy")) is not None:
        initial = _number(exponential, "initial")
        power = min(_number(exponential, "multiplier") ** min(times, _POWER_MAX), _LONG_MAX)
        return min(_number(exponential, "max"), _as_long(initial * power))
    customized = _part(policy, "customizedRetryPolicy") if kind == "CUSTOMIZED" else None
    delays = (customized or {}).get("next") or CUSTOMIZED_RETRIES_MS
    return int(delays[min(times + _FIRST, len(delays) - 1)])


def _part(policy: Mapping[str, Any] | None, key: str) -> Mapping[str, Any] | None:
    part = (policy or {}).get(key)
    return part if isinstance(part, Mapping) else None


def _number(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    return EXPONENTIAL_RETRIES[key] if value is None else int(value)


def _as_long(value: int) -> int:
    """As Java's 64-bit multiplication leaves it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
