"""The body of a batch acknowledgement: for each pop the offsets that are done, as a bit set from its start offset.

    {"brokerName": …, "acks": [{"c": group, "t": topic, "r": "0" | "1" | "2", "so": start offset, "q": queue id,
                                "rq": revive queue, "pt": pop time, "it": invisible time, "b": base64 bit set}]}

The long names (`consumerGroup`, `topic`, …) are read too. Bit n of the set is bit n % 8 of byte n / 8.

Mirrors: BatchAckMessageRequestBody, BatchAck, BitSetSerializerDeserializer.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cometmq.errors import ProtocolError
from cometmq.wire import fastjson


@dataclass(slots=True)
class BatchAck:
    """Some messages of one pop that are done."""

    group: str | None
    topic: str | None
    retry: str | None
    start_offset: int
    queue_id: int
    revive_queue: int
    pop_time_ms: int
    invisible_time_ms: int
    bits: bytes | None

    def offsets(self) -> Iterator[int]:
        """Of the acknowledged messages, in order."""
        for at, byte in enumerate(self.bits or b""):
            while byte:
                low = byte & -byte
                yield self.start_offset + at * 8 + low.bit_length() - 1
                byte ^= low

    def to_json(self) -> dict[str, Any]:
        return {
            "c": self.group,
            "t": self.topic,
            "r": self.retry,
            "so": self.start_offset,
            "q": self.queue_id,
            "rq": self.revive_queue,
            "pt": self.pop_time_ms,
            "it": self.invisible_time_ms,
            "b": binascii.b2a_base64(self.bits or b"", newline=False).decode(),
        }


def bit_set(numbers: Iterable[int]) -> bytes:
    """A set of numbers from 0 on as Java writes it."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


@dataclass(slots=True)
class BatchAcks:
    broker_name: str | None
    acks: list[BatchAck]

    def encode(self) -> bytes:
        return fastjson.dumps({"acks": [one.to_json() for one in self.acks], "brokerName": self.broker_name})


def read_batch_acks(body: bytes | memoryview) -> BatchAcks:
    """Read a body; raises `ProtocolError` where Java's reader would throw."""
    fields = fastjson.loads(body)
    if fields is None:
        return BatchAcks(None, [])
    if not isinstance(fields, dict):
        raise ProtocolError("the body is not a JSON object")
    acks = fields.get("acks")
    if acks is None:
        return BatchAcks(_text(fields, "brokerName"), [])
    if not isinstance(acks, list):
        raise ProtocolError("acks is not a list")
    return BatchAcks(_text(fields, "brokerName"), [_batch_ack(one) for one in acks])


def _batch_ack(fields: Any) -> BatchAck:
    if not isinstance(fields, dict):
        raise ProtocolError("an acknowledgement is not a JSON object")
    return BatchAck(
        _text(fields, "c", "consumerGroup"),
        _text(fields, "t", "topic"),
        _text(fields, "r", "retry"),
        _number(fields, "so", "startOffset"),
        fastjson.int_of(_first(fields, "q", "queueId")),
        fastjson.int_of(_first(fields, "rq", "reviveQueueId")),
        _number(fields, "pt", "popTime"),
        _number(fields, "it", "invisibleTime"),
        _bits(_first(fields, "b", "bitSet")),
    )


def _first(fields: dict[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _text(fields: dict[str, Any], *names: str) -> str | None:
    value = _first(fields, *names)
    return None if value is None else fastjson.text_of(value)


def _number(fields: dict[str, Any], *names: str) -> int:
    value = _first(fields, *names)
    try:
        return 0 if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        raise ProtocolError(f"{value!r:.80} where a whole number is expected") from None


def _bits(value: Any) -> bytes | None:
    if not value:
        return None
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError):
        raise ProtocolError(f"{value!r:.80} is not a bit set in base64") from None
