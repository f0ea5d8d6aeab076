"""Attributes of topics and groups: which there are, what values they take, and how a change is written.

    +message.type=FIFO,-reserve.time        add or alter, delete

Mirrors: AttributeParser, AttributeUtil, TopicAttributes, SubscriptionGroupAttributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cometmq.errors import RequestRefused

_LONG_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: one of `values`, or a number of `span`, or, where neither is given, any text.

    `values` stand in the order in which Java prints them.
    """

    changeable: bool = True
    values: tuple[str, ...] | None = None
    span: tuple[int, int] | None = None
    any_case: bool = False

    def check(self, value: str) -> None:
        if self.values is not None:
            if (value.lower() if self.any_case else value) not in self.values:
                if self.any_case:
                    raise _refused("boolean attribute format is wrong.")
                raise _refused(f"value is not in set: [{', '.join(self.values)}]")
        elif self.span is not None:
            low, high = self.span
            try:
                number = int(value)
            except ValueError:
                raise _refused(f'For input string: "{value}"') from None
            if not low <= number <= high:
                raise _refused(f"value is not in range({low}, {high})")


_BOOLEAN: Final = Attribute(values=("true", "false"), any_case=True)

TOPIC_ATTRIBUTES: Final = {
    "queue.type": Attribute(changeable=False, values=("SimpleCQ", "BatchCQ")),
    "cleanup.policy": Attribute(changeable=False, values=("DELETE", "COMPACTION")),
    "message.type": Attribute(
        values=("UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL")
    ),
    "reserve.time": Attribute(span=(-1, _LONG_MAX)),
    "lite.topic.expiration": Attribute(span=(-1, 30 * 24 * 60)),
}

GROUP_ATTRIBUTES: Final = {
    "priority.factor": Attribute(span=(0, 100)),
    "lite.bind.topic": Attribute(),
    "lite.sub.model": Attribute(values=("Shared", "Exclusive")),
    "lite.sub.reset.offset.exclusive": _BOOLEAN,
    "lite.sub.reset.offset.unsubscribe": _BOOLEAN,
    "lite.sub.client.quota": Attribute(span=(-1, _LONG_MAX)),
    "lite.sub.client.max.event.cnt": Attribute(span=(10, _LONG_MAX)),
    "lite.sub.wildcard": Attribute(),
}


def parse_changes(text: str | None) -> dict[str, str]:
    """Read a change as admin tools send it; keys keep their sign."""
    changes: dict[str, str] = {}
    pieces = text.rstrip(",") if text else ""  # Java's split drops empty pieces at the end, and only there
    for piece in pieces.split(",") if pieces else ():
        key, equals, value = piece.partition("=")
        value = value.partition("=")[0]
        if equals and "+" not in key:
            raise _refused(f"add/alter attribute format is wrong: {key}")
        if equals and not value:
            raise _refused("Index 1 out of bounds for length 1")
        if not equals and "-" not in key:
            raise _refused(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise _refused(f"key duplication: {key}")
        changes[key] = value
    return changes


def alter(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """`current` with the changes applied; None as current means that the topic or group is new."""
    after = dict(current or {})
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            raise _refused("kv string format wrong.")
        if key in seen:
            raise _refused(f"alter duplication key. key: {key}")
        seen.add(key)
        if current is None and sign != "+":
            raise _refused(f"only add attribute is supported while creating topic. key: {key}")
        if sign not in ("+", "-"):
            raise _refused(f"wrong format key: {key}")
        if sign == "-" and key not in after:
            raise _refused(f"attempt to delete a nonexistent key: {key}")
        _check(known, key, value, sign, is_new=current is None)
        if sign == "+":
            after[key] = value
        else:
            del after[key]
    return after


def _check(known: Mapping[str, Attribute], key: str, value: str, sign: str, *, is_new: bool) -> None:
    attribute = known.get(key)
    if attribute is None:
        raise _refused(f"unsupported key: {key}")
    if not is_new and not attribute.changeable:
        raise _refused(f"attempt to update an unchangeable attribute. key: {key}")
    if sign == "+":
        attribute.check(value)


def _refused(why: str) -> RequestRefused:
    return RequestRefused("SYSTEM_ERROR", why)
