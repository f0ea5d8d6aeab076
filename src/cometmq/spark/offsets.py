"""How far every queue is: the offset of a stream, and values that users give for single queues.

    {"orders": {"broker-a": {"0": 12, "1": 7}}, "$new": {"orders": {"broker-a": {"1": 3}}}}

Spark keeps it as text in its checkpoint and compares texts, so the order is always the same. `$new` (no topic can be
called so) tells where a queue begins whose beginning the offset before does not tell: one that was found while the
stream ran and has lost its oldest messages already, or one that begins anew after a loss of data. So a batch that
is repeated after a crash is the same batch, whatever the brokers say by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cometmq.errors import InvalidArgument
from cometmq.model.queue import MessageQueue

NEW: Final = "$new"
GROUP: Final = "$group"  # in what is reported only: see tracking.py
LONG_MAX: Final = (1 << 63) - 1

Offsets = dict[MessageQueue, int]


class Range(NamedTuple):
    """Messages of one queue: offsets in [start, end)."""

    topic: str
    broker: str
    queue: int
    start: int
    end: int
    in_batches: bool = False  # a record holds many messages (queue.type=BatchCQ), among which no broker can select

    @property
    def rows(self) -> int:
        return self.end - self.start

    @property
    def place(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker, self.queue)

    def __str__(self) -> str:
        return f"queue {self.queue} of {self.topic} on {self.broker}, offsets {self.start} to {self.end}"


def nested(offsets: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """Offsets as JSON, topic by broker by queue, always in the same order."""
    found: dict[str, Any] = {}
    for topic, broker, queue in sorted(offsets):
        at = offsets[MessageQueue(topic, broker, queue)]
        found.setdefault(str(topic), {}).setdefault(str(broker), {})[str(queue)] = at
    return found


def flat(given: Any, where: str) -> Offsets:
    """The opposite; anything else raises `InvalidArgument`."""
    found: Offsets = {}
    for topic, brokers in _object(given, where).items():
        for broker, queues in _object(brokers, where).items():
            for queue, offset in _object(queues, where).items():
                if not _is_number(queue) or type(offset) is not int or abs(offset) > LONG_MAX:
                    raise InvalidArgument(f"{where}: {topic} {broker} {queue!r}: {offset!r} is no offset of a queue")
                found[MessageQueue(topic, broker, int(queue))] = offset
    return found


def _is_number(queue: str) -> bool:
    """Whether it is one, spelt as numbers are: `00` would name a queue twice."""
    return queue.isascii() and queue.isdecimal() and (queue == "0" or queue[0] != "0")


def _object(given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidArgument(f'{where}: {given!r} stands where {{"topic": {{"broker": {{"0": 12}}}}}} is expected')
    return given


@dataclass(slots=True)
class StreamOffset:
    """How far a stream is in every queue that it knows; `begins` is what stands under `$new`."""

    ends: Offsets
    begins: Offsets = field(default_factory=dict)

    @classmethod
    def read(cls, given: Any) -> StreamOffset:
        fields = dict(_object(given, "the offset in the checkpoint"))
        begins = fields.pop(NEW, {})
        fields.pop(GROUP, None)
        return cls(flat(fields, "the offset in the checkpoint"), flat(begins, "the offset in the checkpoint"))

    def write(self) -> dict[str, Any]:
        begins = {NEW: nested(self.begins)} if self.begins else {}
        return nested(self.ends) | begins


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[Range]:
    """What a batch reads; nothing of a queue whose end is not behind its start."""
    found: list[Range] = []
    if start == end:
        return found  # what stands under `$new` was read then
    for queue in sorted(end.ends):
        begin = end.begins.get(queue, start.ends.get(queue, 0))
        if begin < end.ends[queue]:
            found.append(Range(str(queue.topic), str(queue.broker_name), queue.queue_id, begin, end.ends[queue]))
    return found


@dataclass(frozen=True, slots=True)
class QueueValues:
    """A number for every queue: one for all, one for all queues of a topic, or one for each."""

    name: str = ""
    all: int | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[MessageQueue, int] = field(default_factory=dict)

    @classmethod
    def everywhere(cls, value: int) -> QueueValues:
        return cls(all=value)

    def of(self, queue: MessageQueue) -> int:
        """Its value; a queue that is not named is refused, as nobody can know what is meant."""
        found = self.queues.get(queue, self.topics.get(str(queue.topic), self.all))
        if found is None:
            raise InvalidArgument(
                f"{self.name} does not name queue {queue.queue_id} of {queue.topic} on {queue.broker_name}; name every "
                "queue that is read"
            )
        return found

    def check_known(self, queues: Iterator[MessageQueue] | list[MessageQueue]) -> None:
        """Refuse values for what is not read."""
        known = set(queues)
        topics = {queue.topic for queue in known}
        for queue in self.queues:
            if queue not in known:
                raise InvalidArgument(
                    f"{self.name} names queue {queue.queue_id} of {queue.topic} on {queue.broker_name}, which is not "
                    "among the queues that are read"
                )
        for topic in self.topics:
            if topic not in topics:
                raise InvalidArgument(f"{self.name} names the topic {topic}, which is not among those that are read")


def read_queue_values(given: Any, name: str, *, whole_topics: bool) -> QueueValues:
    """What a user gives as JSON; with `whole_topics` also `{"topic": 123}`."""
    fields = _object(given, f"the option {name}")
    topics: dict[str, int] = {}
    if whole_topics:
        topics = {topic: value for topic, value in fields.items() if type(value) is int}
        fields = {topic: value for topic, value in fields.items() if topic not in topics}
    queues = flat(fields, f"the option {name}")
    if not topics and not queues:
        raise InvalidArgument(f"the option {name} names no queue")
    lowest = 0 if whole_topics else -2
    for value in (*topics.values(), *queues.values()):
        if value < lowest:
            raise InvalidArgument(f"the option {name}: {value} is less than {lowest}")
    return QueueValues(name, None, topics, queues)
