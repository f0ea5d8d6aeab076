"""What a group wants of one topic.

Mirrors: SubscriptionData, ExpressionType.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"


def is_tag_type(expression_type: str | None) -> bool:
    """No type at all means tags: old clients name none."""
    return not expression_type or expression_type == TAG


def _long(value: Any) -> int:
    number = 0 if value is None else int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} is no number of 64 bits")
    return number


@dataclass(slots=True, frozen=True)
class SubscriptionData:
    """A subscription; `tags_set` and `code_set` (the tags' Java hashes) are empty where every message is wanted."""

    topic: str
    sub_string: str = ALL
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = frozenset()
    sub_version: int = 0
    expression_type: str = TAG
    class_filter_mode: bool = False

    @property
    def is_tag(self) -> bool:
        return is_tag_type(self.expression_type)

    def to_json(self) -> dict[str, Any]:
        return {
            "classFilterMode": self.class_filter_mode,
            "codeSet": list(self.code_set),
            "expressionType": self.expression_type,
            "subString": self.sub_string,
            "subVersion": self.sub_version,
            "tagsSet": list(self.tags_set),
            "topic": self.topic,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any], now_ms: int = 0) -> SubscriptionData:
        """Read what a client sent; `now_ms` is the version of a subscription that carries none, as in Java.

        What cannot be read raises ValueError, TypeError, AttributeError or OverflowError.
        """
        get = fields.get
        return cls(
            topic=str(get("topic") or ""),
            sub_string=str(get("subString") or ""),
            tags_set=frozenset(map(str, get("tagsSet") or ())),
            code_set=frozenset(map(_long, get("codeSet") or ())),
            sub_version=_long(get("subVersion", now_ms)),
            expression_type=str(get("expressionType") or TAG),
            class_filter_mode=bool(get("classFilterMode", False)),
        )
