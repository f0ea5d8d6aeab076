"""Tag subscriptions: `A || B`, and the test on the hash that a ConsumeQueue unit holds.

The hash lets a few wrong messages through when two tags share it; the client compares the text once more.

Mirrors: FilterAPI, ExpressionMessageFilter.isMatchedByConsumeQueue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from cometmq.errors import RequestRefused
from cometmq.model.java_hash import string_hash
from cometmq.model.subscription import ALL, TAG, SubscriptionData, is_tag_type

__all__ = ["TAG", "build", "matcher", "parse"]


def parse(topic: str, expression: str | None, sub_version: int = 0) -> SubscriptionData:
    """Read a tag expression; nothing and `*` ask for every message."""
    if not expression or expression == ALL:
        return SubscriptionData(topic, sub_version=sub_version)
    pieces = expression.split("||")
    if not any(pieces):
        # Java's split leaves nothing of a text that is separators only, and its caller refuses that.
        raise RequestRefused("SUBSCRIPTION_PARSE_FAILED", "parse the consumer's subscription failed")
    tags = frozenset(tag for piece in pieces if (tag := piece.strip()))
    return SubscriptionData(topic, expression, tags, frozenset(map(string_hash, tags)), sub_version)


def build(topic: str, expression: str | None, expression_type: str | None, sub_version: int = 0) -> SubscriptionData:
    """Read an expression of any type; what is not a tag expression is kept as text."""
    if is_tag_type(expression_type):
        if expression is None or len(expression) <= _REMEMBERED_LENGTH_MAX:
            return _parse_once(topic, expression, sub_version)
        return parse(topic, expression, sub_version)
    if not expression:
        raise RequestRefused("SUBSCRIPTION_PARSE_FAILED", "parse the consumer's subscription failed")
    return SubscriptionData(topic, expression, sub_version=sub_version, expression_type=str(expression_type))


# A consumer sends its expression with every pull; long ones are not kept, whoever sends them.
_REMEMBERED_LENGTH_MAX: Final = 128
_parse_once = lru_cache(1024)(parse)


def matcher(subscription: SubscriptionData) -> Callable[[int], bool] | None:
    """The test for a unit's tags code; None where everything matches, so that readers can skip it."""
    if subscription.class_filter_mode or not subscription.is_tag or subscription.sub_string == ALL:
        return None
    return subscription.code_set.__contains__
