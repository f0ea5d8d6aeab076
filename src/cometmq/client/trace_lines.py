"""The lines of a message trace, as Java writes and reads them (pure).

    Pub            1 time 1 region 1 group 1 topic 1 id 1 tags 1 keys 1 broker 1 size 1 cost 1 type 1 offset id 1 ok 2
    SubBefore      1 time 1 region 1 group 1 request 1 id 1 reconsume times 1 keys 2             one line per message
    SubAfter       1 request 1 id 1 cost 1 ok 1 keys 1 outcome 1 time 1 group 2                  one line per message
    EndTransaction 1 time 1 region 1 group 1 topic 1 id 1 tags 1 keys 1 broker 1 type 1 transaction 1 state 1 check 2

1 and 2 stand for those characters (U+0001, U+0002). Times and costs are milliseconds. What is not there is `null`.

Mirrors: TraceDataEncoder, TraceType, MessageType, ConsumeReturnType.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

DEFAULT_REGION: Final = "DefaultRegion"


class TracedType(IntEnum):
    """What kind of message it was."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAYED = 3


class Outcome(IntEnum):
    """How a listener ended."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


class Line(NamedTuple):
    """One or more lines with the keys that they are found by; `topic` is that of the traced messages."""

    topic: str
    text: str
    keys: tuple[str, ...]


class Consumed(NamedTuple):
    """What is traced of a message that a consumer has."""

    message_id: str
    keys: str | None
    reconsume_times: int


def _join(*fields: object) -> str:
    return "\x01".join([_text(field) for field in fields]) + "\x02"


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) else str(value)


def _keys(message_id: str, keys: str | None) -> tuple[str, ...]:
    return (message_id, *(keys or "").split())


def pub(
    *,
    time_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    broker: str | None,
    body_size: int,
    cost_ms: int,
    kind: TracedType,
    offset_message_id: str,
    is_ok: bool,
) -> Line:
    """A message was sent."""
    text = _join(
        "Pub", time_ms, region, group, topic, message_id, tags, keys, broker, body_size, cost_ms, kind,
        offset_message_id, is_ok,
    )  # fmt: skip
    return Line(topic, text, _keys(message_id, keys))


def sub_before(
    topic: str, messages: Sequence[Consumed], *, time_ms: int, region: str, group: str, request_id: str
) -> Line:
    """A listener is about to be called."""
    lines = [
        _join("SubBefore", time_ms, region, group, request_id, one.message_id, one.reconsume_times, one.keys)
        for one in messages
    ]
    return Line(topic, "".join(lines), _keys_of(messages))


def sub_after(
    topic: str,
    messages: Sequence[Consumed],
    *,
    time_ms: int,
    group: str,
    request_id: str,
    cost_ms: int,
    is_ok: bool,
    outcome: Outcome,
) -> Line:
    """A listener has returned."""
    lines = [
        _join("SubAfter", request_id, one.message_id, cost_ms, is_ok, one.keys, outcome, time_ms, group)
        for one in messages
    ]
    return Line(topic, "".join(lines), _keys_of(messages))


def _keys_of(messages: Sequence[Consumed]) -> tuple[str, ...]:
    return tuple(key for one in messages for key in _keys(one.message_id, one.keys))


def end_transaction(
    *,
    time_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    broker: str | None,
    transaction_id: str | None,
    state: str,
    is_check: bool,
) -> Line:
    """A producer said how a transaction ended; `is_check` if the broker had to ask."""
    text = _join(
        "EndTransaction", time_ms, region, group, topic, message_id, tags, keys, broker, TracedType.COMMIT,
        transaction_id, state, is_check,
    )  # fmt: skip
    return Line(topic, text, _keys(message_id, keys))
