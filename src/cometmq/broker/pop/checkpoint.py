"""What pop writes down: that messages were handed out, and that some of them are done.

Each is a message of the revive topic with a JSON body and a tag, in Java's fields:

    ck     {"bm":0,"bn":broker,"c":group,"d":[0,1,…],"it":invisible ms,"n":count,"pt":pop ms,"q":queue,
            "reviveTime":pt+it,"ro":0,"so":start offset,"sp":suspend,"t":topic[,"rp":times written again]}
    ack    {"ao":offset,"bn":broker,"c":group,"pt":pop ms,"q":queue,"so":start offset,"t":topic}
    bAck   the same with "aol":[offsets] and "ao":-1

Topic, group, queue, start offset, pop time and broker name together name a pop (`MergeKey`).
`d` are the messages' distances from the start offset; old checkpoints without it hand out `n` in a row.

Mirrors: PopCheckPoint, AckMsg, BatchAckMsg, PopMessageProcessor.genCkUniqueId.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import Any, Final, NamedTuple

import orjson

from cometmq.errors import ProtocolError

CK_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"

COUNT_MAX: Final = 127  # `n` is a Java byte
BITS_MAX: Final = 32  # `bm` is a Java int
IN_A_ROW: Final = tuple(range(count) for count in range(COUNT_MAX + 1))  # the usual `d`; many checkpoints share one

MergeKey = tuple[str, str, int, int, int, str | None]


class CheckPoint:
    """Messages of one queue that were handed out together. `bits` are those done, by their place in `diffs`."""

    __slots__ = (
        "bits",
        "broker_name",
        "diffs",
        "group",
        "invisible_time_ms",
        "pop_time_ms",
        "put_again",
        "queue_id",
        "revive_offset",
        "start_offset",
        "suspend",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        group: str,
        queue_id: int,
        start_offset: int,
        pop_time_ms: int,
        invisible_time_ms: int,
        broker_name: str | None,
        diffs: Sequence[int],
        *,
        suspend: bool = False,
        put_again: int = 0,
    ) -> None:
        self.topic = topic
        self.group = group
        self.queue_id = queue_id
        self.start_offset = start_offset
        self.pop_time_ms = pop_time_ms
        self.invisible_time_ms = invisible_time_ms
        self.broker_name = broker_name
        self.diffs = diffs
        self.suspend = suspend
        self.put_again = put_again  # how often its message could not be stored again
        self.bits = 0
        self.revive_offset = 0  # where it stands in the revive queue

    @property
    def revive_time_ms(self) -> int:
        return self.pop_time_ms + self.invisible_time_ms

    @property
    def key(self) -> MergeKey:
        return self.topic, self.group, self.queue_id, self.start_offset, self.pop_time_ms, self.broker_name

    @property
    def is_done(self) -> bool:
        return self.bits == (1 << len(self.diffs)) - 1

    def acknowledge(self, offset: int) -> bool:
        """A message is done; False if it is not one of these."""
        try:
            self.bits |= 1 << self.diffs.index(offset - self.start_offset)
        except ValueError:
            return False
        return True

    def open_offsets(self) -> list[int]:
        """Of the messages that are not done."""
        bits, start = self.bits, self.start_offset
        return [start + diff for index, diff in enumerate(self.diffs) if not bits >> index & 1]

    @property
    def unique_id(self) -> str:
        return f"{self.topic}@{self.queue_id}@{self.start_offset}@{self.group}@{self.pop_time_ms}@{self.broker_name}@ck"

    def to_body(self) -> bytes:
        again = {"rp": str(self.put_again)} if self.put_again else {}
        return orjson.dumps(
            {
                "bm": 0,
                "bn": self.broker_name,
                "c": self.group,
                "d": list(self.diffs),
                "it": self.invisible_time_ms,
                "n": len(self.diffs),
                "pt": self.pop_time_ms,
                "q": self.queue_id,
                "reviveTime": self.pop_time_ms + self.invisible_time_ms,
                "ro": 0,
                **again,
                "so": self.start_offset,
                "sp": self.suspend,
                "t": self.topic,
            }
        )

    @classmethod
    def from_body(cls, body: bytes) -> CheckPoint | None:
        """Read one; None for one without topic or group, which means nothing."""
        get = _object(body).get
        topic, group = _name(get("t")), _name(get("c"))
        if topic is None or group is None:
            return None
        count = min(max(_whole(get("n")), 0), COUNT_MAX)
        diffs = [_whole(diff) for diff in get("d") or ()][:count]
        in_a_row = IN_A_ROW[count]
        point = cls(
            topic,
            group,
            _whole(get("q")),
            _whole(get("so")),
            _whole(get("pt")),
            _whole(get("it")),
            _name(get("bn")),
            in_a_row if not diffs or diffs == [*in_a_row] else diffs,
            suspend=bool(get("sp")),
            put_again=_whole(get("rp")),
        )
        point.bits = _whole(get("bm")) & (1 << BITS_MAX) - 1
        return point


class Ack(NamedTuple):
    """Messages of one pop that are done."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    broker_name: str | None
    offsets: Sequence[int]

    @property
    def key(self) -> MergeKey:
        return self[:6]

    def to_body(self, *, batch: bool) -> bytes:
        offsets = list(self.offsets)
        fields: dict[str, Any] = {"ao": -1, "aol": offsets} if batch else {"ao": offsets[0]}
        if self.broker_name is not None:
            fields["bn"] = self.broker_name
        fields |= {"c": self.group, "pt": self.pop_time_ms, "q": self.queue_id}
        return orjson.dumps(fields | {"so": self.start_offset, "t": self.topic})

    def unique_id(self, *, batch: bool) -> str:
        """Java names a batch as it names the single acknowledgement of offset -1."""
        offset = -1 if batch else self.offsets[0]
        return f"{self.topic}@{self.queue_id}@{offset}@{self.group}@{self.pop_time_ms}@{self.broker_name or 'null'}@ack"

    @classmethod
    def from_body(cls, body: bytes, broker_name: str, *, batch: bool) -> Ack:
        """Read one; without a broker name it is about this broker."""
        fields = _object(body)

        def get(short: str, long: str) -> Any:
            return fields[short] if short in fields else fields.get(long)

        offsets = get("aol", "ackOffsetList") or () if batch else (get("ao", "ackOffset"),)
        return cls(
            str(get("t", "topic")),
            str(get("c", "consumerGroup")),
            _whole(get("q", "queueId")),
            _whole(get("so", "startOffset")),
            _whole(get("pt", "popTime")),
            _name(get("bn", "brokerName")) or broker_name,
            [_whole(offset) for offset in offsets],
        )


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as broken:
        raise ProtocolError(f"a message of the revive topic is not JSON: {broken}") from None
    if not isinstance(fields, dict):
        raise ProtocolError("a message of the revive topic is not a JSON object")
    return fields


def _name(value: Any) -> str | None:
    """Of a topic, group or broker: one text for all that are in memory at a time."""
    return None if value is None else intern(str(value))


def _whole(value: Any) -> int:
    try:
        return 0 if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        raise ProtocolError(f"{value!r:.80} in a message of the revive topic, where a number should be") from None
