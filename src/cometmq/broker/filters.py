"""Which messages a subscription wants, and the expressions of groups that filter by SQL92: `consumerFilter.json`.

`matcher` is the one way from a subscription to the test that reads are given. Tags are tested on the ConsumeQueue unit
alone; an expression is asked about the record, of which only the properties are looked at.

A group's expressions are kept by topic, the newest version of each. They are registered by heartbeats, die when the
group's last member leaves or subscribes to the topic no more, come alive again with the same version, and are forgotten
`filterDataCleanTimeSpan` after death. One that cannot be read is not kept: pulls are told that there is none.
Bounds: `FILTERS_MAX` expressions; one read takes at most `STEPS_MAX` steps of evaluation.

Mirrors: ConsumerFilterManager, ConsumerFilterData, ExpressionMessageFilter, ExpressionForRetryMessageFilter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.saved import Saved, Table
from cometmq.clock import Clock
from cometmq.errors import CorruptRecord, FilterRefused, RequestRefused
from cometmq.filter import sql, tags
from cometmq.filter.bloom import BloomFilter
from cometmq.model import properties
from cometmq.model.names import RETRY_PREFIX
from cometmq.model.subscription import SQL92, SubscriptionData, is_tag_type
from cometmq.store.reader import Matches, RecordFilter
from cometmq.wire import fastjson
from cometmq.wire.record import Buffer, properties_of
from cometmq.wire.requests.consume import PullMessage

log = logging.getLogger("cometmq.broker")

FILTERS_MAX: Final = 100_000
STEPS_MAX: Final = 100_000
DEAD_SINCE_MS: Final = 30_000  # how long a group is taken to be gone when its broker starts


def read_expression(expression: str, expression_type: str | None) -> sql.Expression:
    """An expression that is no tag expression; raises `FilterRefused`."""
    if expression_type != SQL92:
        raise FilterRefused(f"the broker filters by TAG and SQL92, not by {expression_type}", 0)
    return sql.parse(expression)


def matcher(subscription: SubscriptionData) -> Matches | None:
    """The test that reads are given; None where every message is wanted. Raises `FilterRefused`."""
    if subscription.is_tag or subscription.class_filter_mode:
        return tags.matcher(subscription)
    return expression_matcher(read_expression(subscription.sub_string, subscription.expression_type))


def expression_matcher(expression: sql.Expression) -> RecordFilter:
    matches = expression.matches

    def wants(record: Buffer) -> bool:
        try:
            return matches(properties_of(record))
        except CorruptRecord:
            return False

    return RecordFilter(wants, max(1, STEPS_MAX // expression.steps))


@dataclass(slots=True)
class FilterData:
    """A group's expression for a topic."""

    topic: str
    group: str
    expression: str
    expression_type: str
    born_ms: int
    version: int
    bits: list[int] = field(default_factory=list)
    dead_ms: int = 0

    @property
    def is_dead(self) -> bool:
        return self.dead_ms >= self.born_ms

    def to_json(self, bit_count: int) -> dict[str, Any]:
        return {
            "bloomFilterData": {"bitNum": bit_count, "bitPos": self.bits},
            "bornTime": self.born_ms,
            "clientVersion": self.version,
            "consumerGroup": self.group,
            "dead": self.is_dead,
            "deadTime": self.dead_ms,
            "expression": self.expression,
            "expressionType": self.expression_type,
            "topic": self.topic,
        }


class Filters(Saved):
    """The expressions of all groups."""

    def __init__(self, table: Table, config: BrokerConfig, clock: Clock) -> None:
        super().__init__(table, self.to_json)
        self._clock = clock
        self._forget_after_ms = config.filter_data_clean_time_span
        self._with_retry = config.filter_support_retry
        self._bloom = BloomFilter(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self._found: dict[str, dict[str, FilterData]] = {}  # topic → group → expression
        self._topics_of: dict[str, set[str]] = {}  # group → topics
        self._count = 0
        self.load(self._read)

    def get(self, topic: str, group: str) -> FilterData | None:
        return self._found.get(topic, {}).get(group)

    def described(self, topic: str, group: str) -> str:
        """The expression of a group as a text for operators."""
        found = self.get(topic, group)
        return "null" if found is None else fastjson.dumps(found.to_json(self._bloom.bit_count)).decode()

    def matcher(self, subscription: SubscriptionData) -> Matches | None:
        """As the function of this name; with `filterSupportRetry`, retried messages are asked what their topic asks."""
        if self._with_retry and not subscription.is_tag and subscription.topic.startswith(RETRY_PREFIX):
            return RecordFilter(self._retried(_group_of(subscription.topic)), STEPS_MAX // sql.NODES_MAX)
        return matcher(subscription)

    def registered(self, subscription: SubscriptionData, request: PullMessage) -> SubscriptionData:
        """The subscription of a group with the expression that was registered for it."""
        known = self.get(request.topic, request.consumer_group)
        if known is None:
            raise RequestRefused(
                "FILTER_DATA_NOT_EXIST",
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if known.version < request.sub_version:
            raise RequestRefused("FILTER_DATA_NOT_LATEST", "the consumer's consumer filter data not latest")
        if (known.expression, known.expression_type) == (subscription.sub_string, subscription.expression_type):
            return subscription
        return replace(subscription, sub_string=known.expression, expression_type=known.expression_type)

    def _retried(self, group: str) -> Callable[[Buffer], bool]:
        def wants(record: Buffer) -> bool:
            try:
                stored = properties_of(record)
            except CorruptRecord:
                return False
            topic = properties.parse(str(stored, "utf-8", "replace")).get(properties.RETRY_TOPIC, "")
            known = self.get(topic, group)
            return known is None or read_expression(known.expression, known.expression_type).matches(stored)

        return wants

    # --- registering

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """A heartbeat brought the group's subscriptions; expressions for other topics die."""
        topics: set[str] = set()
        for item in subscriptions:
            topics.add(item.topic)
            if not item.is_tag and item.sub_string:
                self._register(group, item)
        for topic in self._topics_of.get(group, set()) - topics:
            self._kill(self._found[topic][group])

    def _register(self, group: str, item: SubscriptionData) -> None:
        old = self.get(item.topic, group)
        if old is not None and item.sub_version <= old.version:
            if item.sub_version == old.version and old.is_dead:
                self._revive(old)
            return
        if old is not None and (old.expression, old.expression_type) == (item.sub_string, item.expression_type):
            old.version = item.sub_version
            self._revive(old)
            return
        try:
            read_expression(item.sub_string, item.expression_type)
        except FilterRefused as refused:
            log.warning("group %s, topic %s: %s", group, item.topic, refused)
            self._drop(item.topic, group)
            return
        if old is None and self._count >= FILTERS_MAX:
            log.warning("group %s, topic %s: %d filters are kept, the most allowed", group, item.topic, self._count)
            return
        bits = self._bloom.bits_of(f"{group}#{item.topic}")
        now_ms = self._clock.now_ms()
        self._keep(FilterData(item.topic, group, item.sub_string, item.expression_type, now_ms, item.sub_version, bits))
        self.mark()

    def unregister(self, group: str) -> None:
        """The group's last member has left."""
        for topic in self._topics_of.get(group, ()):
            self._kill(self._found[topic][group])

    def clean(self) -> None:
        """Forget what has been dead too long."""
        oldest_ms = self._clock.now_ms() - self._forget_after_ms
        gone = [
            data
            for by_group in self._found.values()
            for data in by_group.values()
            if data.is_dead and data.dead_ms <= oldest_ms
        ]
        for data in gone:
            self._drop(data.topic, data.group)

    def _kill(self, data: FilterData) -> None:
        if not data.is_dead:
            data.dead_ms = self._clock.now_ms()
            self.mark()

    def _revive(self, data: FilterData) -> None:
        data.dead_ms = 0
        self.mark()

    def _keep(self, data: FilterData) -> None:
        by_group = self._found.setdefault(data.topic, {})
        self._count += data.group not in by_group
        by_group[data.group] = data
        self._topics_of.setdefault(data.group, set()).add(data.topic)

    def _drop(self, topic: str, group: str) -> None:
        by_group = self._found.get(topic, {})
        if by_group.pop(group, None) is not None:
            self._count -= 1
            if not by_group:
                del self._found[topic]
            self._topics_of[group].discard(topic)
            if not self._topics_of[group]:
                del self._topics_of[group]
            self.mark()

    # --- the table

    def to_json(self) -> dict[str, Any]:
        bit_count = self._bloom.bit_count
        return {
            "filterDataByTopic": {
                topic: {
                    "groupFilterData": {group: data.to_json(bit_count) for group, data in by_group.items()},
                    "topic": topic,
                }
                for topic, by_group in self._found.items()
            }
        }

    def _read(self, saved: dict[str, Any]) -> None:
        dead_ms = self._clock.now_ms() - DEAD_SINCE_MS
        for topic, kept in (saved.get("filterDataByTopic") or {}).items():
            for group, fields in (kept.get("groupFilterData") or {}).items():
                self._read_one(topic, group, fields, dead_ms)

    def _read_one(self, topic: str, group: str, fields: dict[str, Any], dead_ms: int) -> None:
        expression, expression_type = str(fields.get("expression") or ""), fields.get("expressionType")
        try:
            if is_tag_type(expression_type):
                raise FilterRefused("it is no expression", 0)
            read_expression(expression, expression_type)
        except FilterRefused as refused:
            log.warning("group %s, topic %s: a filter of consumerFilter.json is left out: %s", group, topic, refused)
            return
        born_ms = int(fields.get("bornTime") or 0)
        self._keep(
            FilterData(
                topic,
                group,
                expression,
                str(expression_type),
                born_ms,
                int(fields.get("clientVersion") or 0),
                self._bloom.bits_of(f"{group}#{topic}"),
                int(fields.get("deadTime") or 0) or max(dead_ms, born_ms),
            )
        )


def _group_of(retry_topic: str) -> str:
    """The group behind `%RETRY%group` or `%RETRY%group+topic`."""
    pieces = retry_topic[len(RETRY_PREFIX) :].split("+")
    return pieces[0] if len(pieces) == 2 else retry_topic[len(RETRY_PREFIX) :]
