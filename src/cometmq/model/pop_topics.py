"""The retry topics of pop, and the marks that stand for them in receipts and reply headers.

    %RETRY%group_topic   mark 1, the default      %RETRY%group+topic   mark 2, with `enableRetryTopicV2`
    any other topic      mark 0

Mirrors: KeyBuilder.
"""

from __future__ import annotations

from typing import Final

from cometmq.model.names import RETRY_PREFIX

ORDER_REVIVE_QUEUE: Final = 999  # the revive queue of a receipt that was popped in order: no queue at all

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"

_V1, _V2 = "_", "+"


def pop_retry_topic(topic: str, group: str, *, v2: bool = False) -> str:
    """Where messages of `topic` go that `group` popped and did not acknowledge."""
    return f"{RETRY_PREFIX}{group}{_V2 if v2 else _V1}{topic}"


def mark_of(topic: str) -> str:
    """The kind of a topic as receipts and reply headers write it."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if _V2 in topic else RETRY_V1


def marked_topic(topic: str, group: str, mark: str) -> str | None:
    """The topic that a mark beside a normal topic's name means; None if the mark is unknown."""
    if mark == NORMAL:
        return topic
    if mark in (RETRY_V1, RETRY_V2):
        return pop_retry_topic(topic, group, v2=mark == RETRY_V2)
    return None


def normal_topic(topic: str, group: str) -> str:
    """The topic behind a retry topic of pop; any other topic is its own."""
    if not topic.startswith(RETRY_PREFIX):
        return topic
    return topic[len(RETRY_PREFIX) + len(group) + 1 :]


def popped_topic(topic: str, group: str) -> str | None:
    """The topic behind a retry topic of pop, if it can be one of this group.

    A group may have `_` in its name, so `%RETRY%a_b_c` can be of the groups `a` and `a_b`, or what `a_b_c` sent back.
    """
    prefix = f"{RETRY_PREFIX}{group}"
    if not topic.startswith((prefix + _V1, prefix + _V2)):
        return None
    return normal_topic(topic, group) or None
