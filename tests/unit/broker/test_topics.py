"""Topics: those that always exist, those that a send makes, changes by admins, and what survives."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cometmq.broker.config import BrokerConfig
from cometmq.broker.topics import Topics
from cometmq.errors import RequestRefused, StoreError
from cometmq.model.topic import TopicConfig

from .state_kit import MemoryTable, StillClock, file_table

CONFIG = BrokerConfig()


def topics_of(table: MemoryTable | None = None, config: BrokerConfig = CONFIG) -> Topics:
    return Topics(table or MemoryTable(), config, StillClock())


def test_a_new_broker_has_the_topics_of_the_original() -> None:
    # As Apache RocketMQ 5.5.0 answers GET_ALL_TOPIC_CONFIG with its default settings: (read queues, perm).
    assert {topic.name: (topic.read_queue_nums, topic.perm) for topic in topics_of()} == {
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "SELF_TEST_TOPIC": (1, 6),
        "rmq_sys_wheel_timer": (1, 6),
        "DefaultCluster": (16, 7),
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": (1, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1),
        "broker-a": (1, 7),
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "OFFSET_MOVED_EVENT": (1, 6),
    }


def test_settings_decide_on_the_topics_of_the_start() -> None:
    config = dataclasses.replace(
        CONFIG, auto_create_topic_enable=False, cluster_topic_enable=False, trace_topic_enable=True
    )
    topics = topics_of(config=config)
    assert "TBW102" not in topics
    assert "RMQ_SYS_TRACE_TOPIC" in topics
    assert topics.get("DefaultCluster").perm == 1  # type: ignore[union-attr]


def test_a_send_makes_a_topic_after_the_default_topic() -> None:
    topics = topics_of()
    made = topics.create_on_send("orders", "TBW102", 4)
    assert made == TopicConfig("orders", 4, 4, perm=6)
    assert topics.get("orders") is made
    assert topics.create_on_send("orders", "TBW102", 9) is made


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (8, 8), (100, 8), (0, 0), (-3, 0)])
def test_the_default_topic_limits_the_queues(asked: int, made: int) -> None:
    topic = topics_of().create_on_send("orders", "TBW102", asked)
    assert topic is not None
    assert topic.write_queue_nums == topic.read_queue_nums == made


@pytest.mark.parametrize("default_topic", ["absent", "SELF_TEST_TOPIC"])
def test_no_topic_is_made_after_one_that_does_not_let_inherit(default_topic: str) -> None:
    topics = topics_of()
    topics.persist()
    assert topics.create_on_send("orders", default_topic, 4) is None
    assert "orders" not in topics
    assert not topics.unsaved


def test_without_auto_creation_a_saved_default_topic_does_not_help() -> None:
    table = MemoryTable()
    topics = topics_of(table)
    topics.create_on_send("first", "TBW102", 4)
    topics.persist()
    locked = topics_of(table, dataclasses.replace(CONFIG, auto_create_topic_enable=False))
    assert "TBW102" in locked
    assert locked.create_on_send("second", "TBW102", 4) is None


def test_a_retry_topic_is_made_in_any_case() -> None:
    topic = topics_of().create_on_send("%RETRY%g", "absent", 4)
    assert topic == TopicConfig("%RETRY%g", 1, 1, perm=6)


def test_unit_mode_marks_the_topic() -> None:
    topics = topics_of()
    assert topics.create_on_send("a", "TBW102", 1, unit_mode=True).sys_flag == 1  # type: ignore[union-attr]
    assert topics.create_on_send("%RETRY%a", "TBW102", 1, unit_mode=True).sys_flag == 2  # type: ignore[union-attr]


def test_send_back_follows_the_order_of_its_group() -> None:
    topics = topics_of()
    topic = topics.create_on_send_back("%RETRY%g", 2)
    assert (topic.write_queue_nums, topic.order) == (2, False)
    version = topics.data_version.counter
    assert topics.create_on_send_back("%RETRY%g", 5) is topic
    assert topics.data_version.counter == version
    assert topics.create_on_send_back("%RETRY%g", 5, order=True).order
    assert topics.data_version.counter == version + 1


def test_every_change_is_announced_and_versioned() -> None:
    topics = topics_of()
    told: list[TopicConfig | None] = []
    topics.on_change = told.append
    made = topics.create_on_send("orders", "TBW102", 4)
    topics.delete("orders")
    assert told == [made, None]
    assert topics.data_version.counter == 2
    assert not topics.delete("orders")
    assert topics.data_version.counter == 2


def test_many_changes_cost_one_save() -> None:
    table = MemoryTable()
    topics = topics_of(table)
    for number in range(1_000):
        topics.create_on_send(f"t{number}", "TBW102", 4)
    assert table.saves == 0
    assert topics.persist()
    assert not topics.persist()
    assert table.saves == 1


def test_topics_survive_in_their_file(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    topics = Topics(file_table(path), CONFIG, StillClock())
    topics.create_on_send("orders", "TBW102", 4)
    topics.update(TopicConfig("fifo", 2, 3, order=True, attributes={"+message.type": "FIFO"}))
    topics.persist()
    again = Topics(file_table(path), CONFIG, StillClock(0))
    assert again.to_json() == topics.to_json()
    assert again.get("fifo").attributes == {"message.type": "FIFO"}  # type: ignore[union-attr]


def test_what_the_table_does_not_know_is_handed_back() -> None:
    table = MemoryTable()
    table.save({"topicConfigTable": {}, "later": {"x": 1}})
    topics = topics_of(table)
    topics.create_on_send("orders", "TBW102", 4)
    topics.persist()
    saved = table.load()
    assert saved is not None
    assert saved["later"] == {"x": 1}


@pytest.mark.parametrize("saved", [{"topicConfigTable": [1]}, {"topicConfigTable": {"t": {"perm": "many"}}}])
def test_a_table_of_another_shape_names_its_file(saved: dict[str, object]) -> None:
    table = MemoryTable("some/topics.json")
    table.save(saved)
    with pytest.raises(StoreError, match=r"some/topics\.json"):
        topics_of(table)


def test_attributes_are_changed_by_signs() -> None:
    topics = topics_of()
    assert topics.update(TopicConfig("a", attributes={"+message.type": "FIFO"}))
    assert topics.update(TopicConfig("a", attributes={"+message.type": "DELAY", "+reserve.time": "5"}))
    assert topics.get("a").attributes == {"message.type": "DELAY", "reserve.time": "5"}  # type: ignore[union-attr]
    assert topics.update(TopicConfig("a", attributes={"-reserve.time": ""}))
    assert topics.get("a").attributes == {"message.type": "DELAY"}  # type: ignore[union-attr]


def test_an_update_that_changes_nothing_is_none() -> None:
    topics = topics_of()
    assert topics.update(TopicConfig("a"))
    assert not topics.update(TopicConfig("a"))
    assert topics.data_version.counter == 1


def test_a_list_is_taken_whole_or_not_at_all() -> None:
    topics = topics_of()
    with pytest.raises(RequestRefused, match="unsupported key: nope"):
        topics.update_all([TopicConfig("a"), TopicConfig("b", attributes={"+nope": "1"})])
    assert "a" not in topics


@pytest.mark.parametrize("name", ["TBW102", "broker-a", "DefaultCluster", "rmq_sys_x", "DefaultCluster_REPLY_TOPIC"])
def test_names_of_the_system(name: str) -> None:
    assert topics_of().is_system(name)
    assert not topics_of().is_system("orders")


def test_pages_go_by_name() -> None:
    topics = topics_of()
    names = sorted(topic.name for topic in topics)
    pages = [topic.name for start in range(0, len(topics) + 4, 4) for topic in topics.page(start, 4)]
    assert pages == names
