"""The options of reading: their names, what each may be, and which exclude each other; checked first of all.

Spark hands them over with names in small letters, values as text. `Words` reads single values; `ReadOptions.of` all of
them. Whatever is wrong raises `InvalidArgument` with a sentence that names the option, or the nearest right one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from cometmq.client.options import ClientOptions
from cometmq.client.wanted import subscription
from cometmq.errors import InvalidArgument
from cometmq.model.names import TRACE_TOPIC, group_fault, stored_topic_fault
from cometmq.model.pop_topics import popped_topic
from cometmq.model.queue import MessageQueue
from cometmq.spark.connecting import CONNECTING, client_of
from cometmq.spark.offsets import QueueValues, read_queue_values

CHOOSING: Final = ("subscribe", "subscribePattern", "assign", "dlq", "retry")
STARTING: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
RATES: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
READING: Final = (
    *CONNECTING, *CHOOSING, *STARTING, *ENDING, *RATES,
    "startingOffsetsByTimestampStrategy", "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "consumerGroup",
    "commitOffsets", "tags", "sqlFilter", "columns", "includeBody", "includeHeaders", "pushdown", "table", "list",
    "traceTopic",
)  # fmt: skip
FILES: Final = ("storePath", "brokerName", "splitFiles", "checkCrc")
WRITING: Final = (
    "topic", "guarantee", "sinkLog", "firstBatch", "idColumn", "producerGroup", "writeId",
)  # fmt: skip
TABLES: Final = ("messages", "trace", "lag", "topics")
ALL: Final = (*READING, *FILES, *WRITING)
# What Spark itself adds to the options of a table or of a stream.
ADDED: Final = ("serialization.format", "provider", "checkpointLocation", "queryName")
# What people try first, without `kafka.` before it and without signs between words.
HABITS: Final = {
    "bootstrapservers": "namesrvAddr",
    "nameserver": "namesrvAddr",
    "endpoints": "namesrvAddr",
    "topics": "subscribe",
    "topicpattern": "subscribePattern",
    "topicspattern": "subscribePattern",
    "group": "consumerGroup",
    "groupid": "consumerGroup",
    "groupidprefix": "consumerGroup",
    "subexpression": "tags",
    "sql": "sqlFilter",
    "securityprotocol": "tls.enable",
    "ssltruststorelocation": "tls.caFile",
    "tlsclienttrustcertpath": "tls.caFile",
    "tlsclientcertpath": "tls.certFile",
    "tlsclientkeypath": "tls.keyFile",
    "tlsclientkeypassword": "tls.keyPassword",
    "tlsclientauthserver": "tls.verify",
    "saslusername": "accessKey",
    "saslpassword": "secretKey",
    "transactional": "guarantee",
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

    def without_added(self) -> list[str]:
        """What is given, in small letters, without what Spark adds."""
        return [name for name in self._given if name not in _ADDED]

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
        is_number = digits.isascii() and digits.isdecimal() and len(digits) < 20
        if not is_number or not at_least <= int(value) <= _LONG_MAX:
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
            return json.loads(self.text(name) or "null", object_pairs_hook=_without_repetition)
        except (ValueError, RecursionError) as fault:
            raise InvalidArgument(f"the option {name} is no JSON: {fault}") from None

    def at_most_one(self, names: Iterable[str]) -> str | None:
        """The one of these that is given."""
        given = self.names(names)
        if len(given) > 1:
            raise InvalidArgument(f"the options {given[0]} and {given[1]} exclude each other")
        return given[0] if given else None

    def check_known(self, known: Iterable[str], what: str) -> None:
        """Refuse what is not known of `what`, and say what was probably meant."""
        own = {name.lower(): name for name in known}
        spelt = {name.lower(): name for name in ALL} | own
        for name, value in self._given.items():
            if name in own or name in _ADDED:
                continue
            if name == "path":
                raise InvalidArgument(
                    f"a path ({value}) means nothing to the source rocketmq: topics are named by the options subscribe "
                    "(to read) and topic (to write), a store's folder by storePath"
                )
            if name in spelt:
                raise InvalidArgument(
                    f"the option {spelt[name]} does not go with {what}; there are {', '.join(sorted(own.values()))}"
                )
            near = _nearest(name, own) or _nearest(name, spelt)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(own.values()))}"
            raise InvalidArgument(f"the source rocketmq has no option {name!r}: {hint}")


_ADDED: Final = frozenset(name.lower() for name in ADDED)


def _nearest(name: str, spelt: Mapping[str, str]) -> str | None:
    plain = re.sub(r"[_.-]", "", name.removeprefix("kafka."))
    if plain in HABITS:
        return HABITS[plain]
    found = get_close_matches(plain, spelt, 1, 0.6)
    return spelt[found[0]] if found else None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found


@dataclass(frozen=True, slots=True)
class Choice:
    """Which queues are read: of these topics, of all topics that match, or exactly these."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: tuple[MessageQueue, ...] = ()
    may_be_absent: bool = False  # a dead-letter or retry topic comes into being with its first message
    popped_by: str | None = None  # a group: the retry topics that pop makes for it are meant, too

    @property
    def is_open(self) -> bool:
        """Whether topics are meant that are not named."""
        return self.pattern is not None or self.popped_by is not None

    def matches(self, topic: str, known: Container[str] | None = None) -> bool:
        """Whether this is one of the topics that are meant and not named; `known` are those of the cluster."""
        if self.popped_by is not None:
            popped = popped_topic(topic, self.popped_by)
            # `_` stands in names of groups, too: it ends the group where a topic of the rest's name is known.
            return popped is not None and (known is None or "+" in topic or popped in known)
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
        words.check_known(READING, "a read of topics")
        check_trace(words)
        choice = choice_of(words)
        _check_mode(words, is_stream)
        group = group_of(words, "consumerGroup")
        start, start_times = _place(words, STARTING, LATEST if is_stream else EARLIEST)
        end, end_times = _place(words, ENDING, LATEST)
        _check_places(start, end, is_stream, group)
        check_times(words)
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


def group_of(words: Words, name: str) -> str | None:
    group = words.text(name)
    if group is not None and (fault := group_fault(group)) is not None:
        raise InvalidArgument(f"the option {name}: {fault}")
    return group


def is_trace(words: Words) -> bool:
    return (words.text("table") or "").lower() == "trace"


def check_trace(words: Words) -> None:
    """Refuse what is of traces only, and what they have not."""
    if not is_trace(words):
        if "traceTopic" in words:
            raise InvalidArgument("the option traceTopic is of table=trace")
        return
    words.at_most_one(("traceTopic", *CHOOSING))
    for name in words.names(("tags", "sqlFilter", "includeBody", "includeHeaders")):
        raise InvalidArgument(f"the option {name} is of messages, and does not go with table=trace")


def choice_of(words: Words) -> Choice:
    """Which of the ways to choose queues is taken; there is exactly one."""
    name = words.at_most_one(CHOOSING)
    if name is None and is_trace(words):
        named = words.text("traceTopic")
        if named is not None:
            _check_topic(named, "traceTopic")
        return Choice((named or TRACE_TOPIC,), may_be_absent=named is None)
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
    return Choice((f"%RETRY%{group}",), may_be_absent=True, popped_by=group)


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


def check_times(words: Words) -> None:
    """Also of a store's files."""
    start, end = (words.number(name, at_least=0) for name in ("startingTimestamp", "endingTimestamp"))
    if start is not None and end is not None and start > end:
        raise InvalidArgument(f"startingTimestamp ({start}) is later than endingTimestamp ({end})")


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
