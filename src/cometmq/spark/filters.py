"""What a query's `WHERE` says about where its rows can be (pure).

Spark gives conditions that are joined by AND. Whatever is not understood is left alone: a `Narrowing` only ever leaves
out what cannot be wanted, and Spark tests the rows once more. Store times of a queue are taken to ascend, as the
brokers' own search takes them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from cometmq.model.properties import KEY_SEPARATOR
from cometmq.model.queue import MessageQueue
from cometmq.spark.offsets import LONG_MAX

COLUMNS: Final = ("topic", "broker", "queue", "tags", "keys", "offset", "store_time")
PLACES: Final = ("broker", "queue", "offset")  # all that a line of a trace has of the message in which it stands

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


@dataclass(slots=True)
class Narrowing:
    """Rows lie within all of these; None and the widest bounds say nothing. Times and `high`s are exclusive ends."""

    topics: list[str] | None = None
    brokers: list[str] | None = None
    queues: list[int] | None = None
    tags: list[str] | None = None
    key: str | None = None
    offset_low: int = 0
    offset_high: int = LONG_MAX
    time_low_ms: int | None = None
    time_high_ms: int | None = None

    def __bool__(self) -> bool:
        return self != Narrowing()

    @property
    def selects(self) -> bool:
        """Whether brokers are to look at messages, and not only at where they stand."""
        return self.tags is not None or self.key is not None

    def takes(self, queue: MessageQueue) -> bool:
        return (
            (self.topics is None or queue.topic in self.topics)
            and (self.brokers is None or queue.broker_name in self.brokers)
            and (self.queues is None or queue.queue_id in self.queues)
        )

    def write(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Narrowing:
        return cls(**fields)


def narrowing_of(filters: Iterable[Filter], columns: Container[str] = COLUMNS) -> Narrowing:
    """What these conditions together say of these columns."""
    found = Narrowing()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) == 1 and attribute[0].lower() in columns:
            _take(found, attribute[0].lower(), one, getattr(one, "value", None))
    return found


def _take(found: Narrowing, column: str, one: Filter, value: Any) -> None:
    values = _values(one, value)
    if column in ("topic", "broker", "queue", "tags") and values is not None:
        name = {"topic": "topics", "broker": "brokers", "queue": "queues", "tags": "tags"}[column]
        if column == "tags" and not all(_is_plain_tag(tag) for tag in values):
            return
        before = getattr(found, name)
        setattr(found, name, sorted(values if before is None else set(values) & set(before)))
        if column == "tags" and not found.tags:
            found.tags, found.offset_high = None, 0  # two different ones at once: no row can be
    elif column == "keys" and values is not None and len(values) == 1:
        key = next(iter(values))
        if isinstance(key, str) and key.strip(KEY_SEPARATOR):
            found.key = key.strip(KEY_SEPARATOR).split(KEY_SEPARATOR)[0]
    elif column == "offset":
        _take_offset(found, one, value, values)
    elif column == "store_time":
        _take_time(found, one, value, values)


def _values(one: Filter, value: Any) -> set[Any] | None:
    """The values that an equality allows."""
    if isinstance(one, In):
        return {item for item in value if item is not None}
    if isinstance(one, EqualTo | EqualNullSafe) and value is not None:
        return {value}
    return None


def _is_plain_tag(tag: Any) -> bool:
    """Whether a tag can be asked for at a broker: `a || b` and `*` mean something there."""
    return isinstance(tag, str) and tag == tag.strip() and bool(tag) and "|" not in tag and tag != "*"


def _take_offset(found: Narrowing, one: Filter, value: Any, values: set[Any] | None) -> None:
    low, high = _bounds(one, value, values, 1)
    if low is not None:
        found.offset_low = max(found.offset_low, low)
    if high is not None:
        found.offset_high = min(found.offset_high, high)


def _take_time(found: Narrowing, one: Filter, value: Any, values: set[Any] | None) -> None:
    if not all(isinstance(item, datetime) and item.tzinfo is not None for item in values or {value}):
        return
    exact = None if values is None else {(item - _EPOCH) // _MS for item in values}
    at = None if values is not None else (value - _EPOCH) // _MS  # rounded down: one more may be read
    low, high = _bounds(one, at, exact, 0)
    if low is not None:
        found.time_low_ms = low if found.time_low_ms is None else max(found.time_low_ms, low)
    if high is not None:
        found.time_high_ms = high if found.time_high_ms is None else min(found.time_high_ms, high)


def _bounds(one: Filter, value: Any, values: set[Any] | None, step: int) -> tuple[int | None, int | None]:
    """First value, and the one behind the last; `step` 0 where the value may lie between two whole ones."""
    if values is not None:
        return (min(values), max(values) + 1) if values else (None, None)
    if not isinstance(value, int):
        return None, None
    if isinstance(one, GreaterThan):
        return value + step, None
    if isinstance(one, GreaterThanOrEqual):
        return value, None
    if isinstance(one, LessThan):
        return None, value if step else value + 1
    if isinstance(one, LessThanOrEqual):
        return None, value + 1
    return None, None
