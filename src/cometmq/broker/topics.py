"""The topics of this broker: `topics.json`, the topics that always exist, and those made by the first send.

Changes mark the table; `persist` saves it (`broker.saved` says who calls it when). Every change is told to
`on_change(config)`, a deletion as `on_change(None)`, so that the registration can announce it at once.
Invariants: a name in the table has passed `names.topic_fault` or came from the table's file; the version grows
with each change.

Mirrors: TopicConfigManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from cometmq.broker.attributes import TOPIC_ATTRIBUTES, alter
from cometmq.broker.config import BrokerConfig
from cometmq.broker.replicated import read_table
from cometmq.broker.saved import Saved, Table
from cometmq.clock import Clock
from cometmq.model import names
from cometmq.model.data_version import DataVersion
from cometmq.model.sysflag import READ_WRITE, Perm
from cometmq.model.topic import TopicConfig
from cometmq.wire.bodies.topic_configs import decode_topic_config

log = logging.getLogger("cometmq.broker")

SCHEDULE_QUEUE_NUMS: Final = 18
BENCHMARK_QUEUE_NUMS: Final = 1024

UNIT: Final = 0x1
UNIT_SUBSCRIBED: Final = 0x2


def system_topics(config: BrokerConfig) -> Iterator[TopicConfig]:
    """The topics that a broker has from the start, in the order in which Java makes them."""

    def with_queues(name: str, queue_nums: int = 1, perm: int = READ_WRITE) -> TopicConfig:
        return TopicConfig(name, queue_nums, queue_nums, perm)

    open_to_all = int(Perm.INHERIT) | READ_WRITE
    cluster, broker = config.broker_cluster_name, config.broker_name
    yield with_queues(names.SELF_TEST_TOPIC)
    if config.auto_create_topic_enable:
        yield with_queues(names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, open_to_all)
    yield with_queues(names.BENCHMARK_TOPIC, BENCHMARK_QUEUE_NUMS)
    yield TopicConfig(cluster, perm=open_to_all if config.cluster_topic_enable else int(Perm.INHERIT))
    yield with_queues(broker, perm=open_to_all if config.broker_topic_enable else int(Perm.INHERIT))
    yield with_queues(names.OFFSET_MOVED_TOPIC)
    yield with_queues(names.SCHEDULE_TOPIC, SCHEDULE_QUEUE_NUMS)
    if config.trace_topic_enable:
        yield with_queues(config.msg_trace_topic_name)
    yield with_queues(f"{cluster}_REPLY_TOPIC")
    yield with_queues(f"{names.SYSTEM_PREFIX}REVIVE_LOG_{cluster}", config.revive_queue_num)
    yield with_queues(f"{names.SYSTEM_PREFIX}SYNC_BROKER_MEMBER_{broker}", perm=int(Perm.INHERIT))
    yield with_queues(names.HALF_TOPIC)
    yield with_queues(names.HALF_OP_TOPIC)
    yield with_queues(names.ROCKSDB_HALF_TOPIC)
    yield with_queues(names.ROCKSDB_HALF_OP_TOPIC)
    if config.timer_wheel_enable:
        yield with_queues(f"{names.SYSTEM_PREFIX}wheel_timer")


class Topics(Saved):
    """Every topic of this broker, by name."""

    def __init__(
        self,
        table: Table,
        config: BrokerConfig,
        clock: Clock,
        on_change: Callable[[TopicConfig | None], None] | None = None,
    ) -> None:
        super().__init__(table, self.to_json)
        self._config = config
        self._clock = clock
        self.on_change = on_change
        self.data_version = DataVersion(timestamp_ms=clock.now_ms())
        self.mapping_version = DataVersion(timestamp_ms=clock.now_ms())  # of static topics, which there are none of
        self._topics = {topic.name: topic for topic in system_topics(config)}
        self._system = frozenset(self._topics)
        if not self.load(self._read):
            self.mark()  # a store that holds messages must have this table

    def _read(self, saved: dict[str, Any]) -> None:
        for name, fields in (saved.get("topicConfigTable") or {}).items():
            self._topics[name] = topic = TopicConfig.from_json(fields)
            topic.name = topic.name or name
        if "dataVersion" in saved:
            self.data_version = DataVersion.from_json(saved["dataVersion"])

    def to_json(self) -> dict[str, Any]:
        """The whole table as `topics.json` and replies hold it."""
        return {
            "dataVersion": self.data_version.to_json(),
            "topicConfigTable": {name: topic.to_json() for name, topic in self._topics.items()},
        }

    # --- looking up

    def get(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._topics

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(self._topics.values())

    def is_batch(self, name: str) -> bool | None:
        """Whether the topic's queues are of batches, if it is known; any thread may ask while the store opens."""
        topic = self._topics.get(name)
        return None if topic is None else topic.is_batch

    def is_system(self, name: str) -> bool:
        """Whether the name belongs to the system: by rule, or because this broker is called so."""
        return name in self._system or names.is_system_topic(name)

    def page(self, start: int, count: int) -> list[TopicConfig]:
        """`count` topics from the `start`-th on, in the order of their names."""
        chosen = sorted(self._topics)[start : start + count]
        return [self._topics[name] for name in chosen]

    # --- changing

    def create_on_send(
        self, name: str, default_topic: str, queue_nums: int, *, unit_mode: bool = False
    ) -> TopicConfig | None:
        """The topic, made now after `default_topic` if that one lets others inherit; None if it does not.

        A retry topic is made whatever the default topic says, as every group has one.
        """
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        sys_flag = UNIT if unit_mode else 0
        if unit_mode and name.startswith(names.RETRY_PREFIX):
            sys_flag = UNIT_SUBSCRIBED
        template = self._topics.get(default_topic)
        if template is not None:
            if default_topic == names.AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
                template.perm = READ_WRITE
            if template.perm & Perm.INHERIT:
                count = max(0, min(queue_nums, template.write_queue_nums))
                perm = template.perm & ~int(Perm.INHERIT)
                return self._put(TopicConfig(name, count, count, perm, template.filter_type, sys_flag))
        log.warning("topic %s was not made: the topic %s does not let others inherit", name, default_topic)
        if name.startswith(names.RETRY_PREFIX):
            return self.create_on_send_back(name, 1, READ_WRITE, sys_flag=sys_flag)
        return None

    def create_on_send_back(
        self, name: str, queue_nums: int, perm: int = READ_WRITE, *, order: bool = False, sys_flag: int = 0
    ) -> TopicConfig:
        """The retry or dead-letter topic of a group, made now if it is absent."""
        topic = self._topics.get(name)
        if topic is None:
            return self._put(TopicConfig(name, queue_nums, queue_nums, perm, sys_flag=sys_flag, order=order))
        if topic.order != order:
            topic.order = order
            self._put(topic)
        return topic

    def update(self, topic: TopicConfig) -> bool:
        """Take what an admin gave, its attributes being signed changes; False if nothing would change."""
        return self.update_all([topic])

    def update_all(self, topics: Iterable[TopicConfig]) -> bool:
        """Take several, or none if one of them cannot be taken."""
        altered = []
        for topic in topics:
            old = self._topics.get(topic.name)
            if topic == old:
                return False
            topic.attributes = alter(TOPIC_ATTRIBUTES, old.attributes if old else None, topic.attributes)
            altered.append(topic)
        for topic in altered:
            self._put(topic)
        return True

    def follow_order_config(self, ordered: Iterable[str]) -> None:
        """The name servers say that these topics are ordered."""
        for name in ordered:
            topic = self._topics.get(name)
            if topic is not None and not topic.order:
                topic.order = True
                self._changed(topic)

    def follow(self, body: bytes) -> None:
        """Have the topics that the master has; a name that could not be a folder is left out."""
        rows, version = read_table(body, "topicConfigTable")
        if version is None or version == self.data_version:
            return
        topics = [
            decode_topic_config(fields) for name, fields in rows.items() if names.stored_topic_fault(name) is None
        ]
        self._topics = {topic.name: topic for topic in topics if topic.name in rows}
        self.data_version = version
        self.mark()
        if self.on_change is not None:
            self.on_change(None)
        self.persist()

    def delete(self, name: str) -> bool:
        """Forget a topic; what it holds in the store is the store's business."""
        if self._topics.pop(name, None) is None:
            return False
        self._changed(None)
        return True

    def _put(self, topic: TopicConfig) -> TopicConfig:
        self._topics[topic.name] = topic
        self._changed(topic)
        return topic

    def _changed(self, topic: TopicConfig | None) -> None:
        self.data_version.advance(self._clock.now_ms())
        self.mark()
        if self.on_change is not None:
            self.on_change(topic)
