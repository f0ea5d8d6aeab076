"""The options of reading: their names, what each may be, and which exclude each other; checked first of all.

Spark hands them over with names in small letters, values as text. `Words` reads single values; `ReadOptions.of` all of
them. Whatever is wrong raises `InvalidArgument` with a sentence that names the option, or the nearest right one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import orjson

from cometmq.client.options import NAMESRV_VARIABLE, ClientOptions
from cometmq.client.wanted import subscription
from cometmq.errors import InvalidArgument
from cometmq.model.names import group_fault, stored_topic_fault
from cometmq.model.queue import MessageQueue
from cometmq.spark.offsets import QueueValues, read_queue_values

CONNECTING: Final = ("namesrvAddr", "requestTimeoutMs", "retryTimeoutMs")
SECRETS: Final = ("accessKey", "secretKey", "securityToken")
CHOOSING: Final = ("subscribe", "subscribePattern", "assign", "dlq", "retry")
STARTING: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
RATES: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
READING: Final = (
    *CONNECTING, *CHOOSING, *STARTING, *ENDING, *RATES,
    "startingOffsetsByTimestampStrategy", "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "consumerGroup",
    "commitOffsets", "tags", "sqlFilter", "columns", "includeBody", "pushdown", "table", "list", "traceTopic",
)  # fmt: skip
# A table that was created with `USING rocketmq` is read and written with the same options.
WRITING: Final = (
    "topic", "guarantee", "sinkLog", "firstBatch", "idColumn", "producerGroup", "writeId",
)  # fmt: skip
# What Spark itself adds to the options of a table or of a stream.
ADDED: Final = ("path", "serialization.format", "provider", "checkpointLocation", "queryName")
# What people try first.
HABITS: Final = {
    "kafka.bootstrap.servers": "namesrvAddr",
    "bootstrap.servers": "namesrvAddr",
    "nameserver": "namesrvAddr",
    "endpoints": "namesrvAddr",
    "topics": "subscribe",
    "topicspattern": "subscribePattern",
    "kafka.group.id": "consumerGroup",
    "group": "consumerGroup",
    "groupidprefix": "consumerGroup",
    "subexpression": "tags",
    "sql": "sqlFilter",
    "includeheaders": "columns",
}

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COMMITTED: Final = "committed"
Place = str | QueueValues

_DURATION: Final = re.compile(r"(\d{1,15})\s*(ms|s|m|min|h|d)\Z")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONG_MAX: Final = (1 << 63) - 1


class Words:
    """The options as given, read one by one."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value).strip() for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def names(self, known: Iterable[str]) -> list[str]:
        """Those of `known` that are given."""
        return [name for name in known if name in self]

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        if value == "":
            raise InvalidArgument(f"the option {name} is empty")
        return value

    def flag(self, name: str, usual: bool) -> bool:
        value = self.text(name)
        if value is None:
            return usual
        if value.lower() not in ("true", "false"):
            raise InvalidArgument(f"the option {name} is {value!r}; true or false is expected")
        return value.lower() == "true"

    def number(self, name: str, *, at_least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or not at_least <= int(value) <= _LONG_MAX:
            raise InvalidArgument(f"the option {name} is {value!r}; a whole number from {at_least} on is expected")
        return int(value)

    def duration_ms(self, name: str, usual_ms: int) -> int:
        value = self.text(name)
        if value is None:
            return usual_ms
        found = _DURATION.match(value.lower())
        if found is None:
            raise InvalidArgument(f"the option {name} is {value!r}; a duration is expected, as 500ms, 30s, 15m or 1h")
        return int(found[1]) * _UNITS_MS[found[2]]

    def one_of(self, name: str, possible: tuple[str, ...], usual: str) -> str:
        value = self.text(name)
        if value is None:
            return usual
        if value.lower() not in possible:
            raise InvalidArgument(f"the option {name} is {value!r}; {' or '.join(possible)} is possible")
        return value.lower()

    def json(self, name: str) -> Any:
        try:
            return orjson.loads(self.text(name) or "null")
        except orjson.JSONDecodeError as fault:
            raise InvalidArgument(f"the option {name} is no JSON: {fault}") from None

    def at_most_one(self, names: Iterable[str]) -> str | None:
        """The one of these that is given."""
        given = self.names(names)
        if len(given) > 1:
            raise InvalidArgument(f"the options {given[0]} and {given[1]} exclude each other")
        return given[0] if given else None

    def check_known(self, known: Iterable[str]) -> None:
        """Refuse what is not known, and say what was probably meant."""
        spelt = {name.lower(): name for name in (*known, *ADDED)}
        for name in self._given:
            if name in spelt:
                continue
            if name.startswith("tls") or name in {secret.lower() for secret in SECRETS}:
                raise InvalidArgument(
                    f"the option {name} cannot be used yet: the CometMQ client neither signs requests nor speaks TLS"
                )
            near = HABITS.get(name) or _nearest(name, spelt)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(spelt.values()))}"
            raise InvalidArgument(f"the source rocketmq has no option {name!r}: {hint}")


def _nearest(name: str, spelt: Mapping[str, str]) -> str | None:
    found = get_close_matches(name, spelt, 1, 0.6)
    return spelt[found[0]] if found else None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which queues are read: of these topics, of all topics that match, or exactly these."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: tuple[MessageQueue, ...] = ()
    may_be_absent: bool = False  # a dead-letter or retry topic comes into being with its first message

    def matches(self, topic: str) -> bool:
        """Whether a topic of the cluster is one of those that the pattern means."""
        return self.pattern is not None and re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """All options of reading messages. `start` and `end` are words, or values for each queue."""

    client: ClientOptions
    retry_ms: int
    choice: Choice
    is_stream: bool
    start: Place
    end: Place
    start_times_ms: QueueValues | None
    end_times_ms: QueueValues | None
    late_start_is_latest: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    max_bytes: int | None
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    group: str | None
    commits: bool
    tags: str | None
    sql: str | None

    @classmethod
    def of(cls, given: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
        """Read and check everything."""
        words = Words(given)
        words.check_known((*READING, *WRITING))
        choice = choice_of(words)
        _check_mode(words, is_stream)
        group = group_of(words, "consumerGroup")
        start, start_times = _place(words, STARTING, LATEST if is_stream else EARLIEST)
        end, end_times = _place(words, ENDING, LATEST)
        _check_places(start, end, is_stream, group)
        tags, sql = words.text("tags"), words.text("sqlFilter")
        if tags is not None and sql is not None:
            raise InvalidArgument(
                "the options tags and sqlFilter exclude each other: write TAGS = 'a' AND … in the SQL"
            )
        subscription("any", tags, sql)  # says what is wrong with them
        _check_rates(words)
        return cls(
            client=client_of(words),
            retry_ms=words.number("retryTimeoutMs", at_least=0) if "retryTimeoutMs" in words else 120_000,  # type: ignore[arg-type]
            choice=choice,
            is_stream=is_stream,
            start=start,
            end=end,
            start_times_ms=start_times,
            end_times_ms=end_times,
            late_start_is_latest=words.one_of("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
            == "latest",
            max_offsets=words.number("maxOffsetsPerTrigger"),
            min_offsets=words.number("minOffsetsPerTrigger"),
            max_delay_ms=words.duration_ms("maxTriggerDelay", 15 * 60_000),
            max_bytes=words.number("maxBytesPerTrigger"),
            min_partitions=words.number("minPartitions"),
            max_records=words.number("maxRecordsPerPartition"),
            fail_on_data_loss=words.flag("failOnDataLoss", True),
            group=group,
            commits=words.flag("commitOffsets", group is not None) and is_stream,
            tags=tags,
            sql=sql,
        )


def client_of(words: Words) -> ClientOptions:
    """How to reach the cluster."""
    namesrv = words.text("namesrvAddr") or os.environ.get(NAMESRV_VARIABLE)
    if not namesrv:
        raise InvalidArgument(
            f'say where the name server is: .option("namesrvAddr", "host:9876"), or set {NAMESRV_VARIABLE}'
        )
    timeout_ms = words.number("requestTimeoutMs") or 10_000
    return ClientOptions.of(namesrv, request_timeout_ms=timeout_ms, connect_timeout_ms=min(timeout_ms, 3_000))


def group_of(words: Words, name: str) -> str | None:
    group = words.text(name)
    if group is not None and (fault := group_fault(group)) is not None:
        raise InvalidArgument(f"the option {name}: {fault}")
    return group


def choice_of(words: Words) -> Choice:
    """Which of the ways to choose queues is taken; there is exactly one."""
    name = words.at_most_one(CHOOSING)
    if name is None:
        raise InvalidArgument(
            'say what to read: .option("subscribe", "orders"), or one of subscribePattern, assign, dlq, retry, '
            "storePath, table"
        )
    value = words.text(name) or ""
    if name == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
        for topic in topics:
            _check_topic(topic, name)
        return Choice(topics)
    if name == "subscribePattern":
        try:
            re.compile(value)
        except re.error as fault:
            raise InvalidArgument(f"the option subscribePattern is no regular expression: {fault}") from None
        return Choice(pattern=value)
    if name == "assign":
        return Choice(queues=_assigned(words.json(name)))
    group = group_of(words, name) or ""
    if name == "dlq":
        return Choice((f"%DLQ%{group}",), may_be_absent=True)
    # Pop has a retry topic for each topic of the group.
    return Choice((f"%RETRY%{group}",), pattern=re.escape(f"%RETRY%{group}+") + ".+", may_be_absent=True)


def _check_topic(topic: str, name: str) -> None:
    if (fault := stored_topic_fault(topic)) is not None:
        raise InvalidArgument(f"the option {name}: {fault}")


def _assigned(given: Any) -> tuple[MessageQueue, ...]:
    wanted = 'the option assign is expected as {"topic": {"broker": [0, 1]}}'
    if not isinstance(given, dict) or not given:
        raise InvalidArgument(wanted)
    found: list[MessageQueue] = []
    for topic, brokers in given.items():
        _check_topic(topic, "assign")
        if not isinstance(brokers, dict):
            raise InvalidArgument(wanted)
        for broker, queues in brokers.items():
            if not isinstance(queues, list) or not all(type(queue) is int and queue >= 0 for queue in queues):
                raise InvalidArgument(wanted)
            found += [MessageQueue(topic, broker, queue) for queue in queues]
    if not found:
        raise InvalidArgument(f"{wanted}; no queue is named in it")
    return tuple(sorted(set(found)))


def _place(words: Words, names: tuple[str, str, str], usual: str) -> tuple[Place, QueueValues | None]:
    """Where reading starts or ends, as offsets or as times; the three names say the same in three ways."""
    by_offset, by_time, by_times = names
    name = words.at_most_one(names)
    if name == by_time:
        return usual, QueueValues.everywhere(words.number(by_time, at_least=0) or 0)
    if name == by_times:
        return usual, read_queue_values(words.json(by_times), by_times, whole_topics=True)
    value = words.text(by_offset)
    if value is None:
        return usual, None
    if value.lower() in (EARLIEST, LATEST, COMMITTED):
        return value.lower(), None
    if not value.startswith("{"):
        raise InvalidArgument(
            f"the option {by_offset} is {value!r}; earliest, latest, committed, or JSON as "
            '{"topic": {"broker": {"0": 12, "1": -2}}} is possible (-2 is earliest, -1 latest)'
        )
    return read_queue_values(words.json(by_offset), by_offset, whole_topics=False), None


def _check_mode(words: Words, is_stream: bool) -> None:
    wrong = words.names((*ENDING, "pushdown")) if is_stream else words.names((*RATES, "commitOffsets"))
    if is_stream and wrong:
        raise InvalidArgument(f"the option {wrong[0]} is of batch reads; a stream has no end")
    if wrong == ["commitOffsets"] and not words.flag("commitOffsets", False):
        return
    if wrong:
        raise InvalidArgument(f"the option {wrong[0]} is of streams; this is a batch read (spark.read)")


def _check_places(start: Place, end: Place, is_stream: bool, group: str | None) -> None:
    if not is_stream and start == LATEST:
        raise InvalidArgument("startingOffsets=latest leaves nothing for a batch read: earliest, committed or JSON")
    if end == EARLIEST:
        raise InvalidArgument("endingOffsets=earliest leaves nothing to read: latest, committed or JSON is possible")
    for name, place in (("startingOffsets", start), ("endingOffsets", end)):
        if place == COMMITTED and group is None:
            raise InvalidArgument(f"{name}=committed needs consumerGroup, whose offsets are meant")


def _check_rates(words: Words) -> None:
    low, high = words.number("minOffsetsPerTrigger"), words.number("maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise InvalidArgument(f"minOffsetsPerTrigger ({low}) is more than maxOffsetsPerTrigger ({high})")
    if "maxTriggerDelay" in words and low is None:
        raise InvalidArgument("maxTriggerDelay says how long minOffsetsPerTrigger waits, which is not given")
    if words.flag("commitOffsets", False) and "consumerGroup" not in words:
        raise InvalidArgument("commitOffsets needs consumerGroup, the group whose progress is kept")
    if "startingOffsetsByTimestampStrategy" in words and not words.names(STARTING[1:]):
        raise InvalidArgument(
            "startingOffsetsByTimestampStrategy needs startingTimestamp or startingOffsetsByTimestamp"
        )
