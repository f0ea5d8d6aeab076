"""Names of topics and groups: what is allowed, and which names mean something to the system.

A name becomes a folder of the store, so `topic_fault` and `group_fault` stand at every door through
which one can enter.

Mirrors: TopicValidator, MixAll.
"""

from __future__ import annotations

import re
from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
SYSTEM_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_HALF_OP_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        HALF_OP_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_HALF_OP_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        TRACE_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)

NOT_SENDABLE_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        HALF_OP_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_HALF_OP_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

TOPIC_LENGTH_MAX: Final = 127
GROUP_LENGTH_MAX: Final = 120
RETRY_TOPIC_LENGTH_MAX: Final = 255

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+\Z")


def is_retry_or_dlq(topic: str) -> bool:
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def group_of_retry(retry_topic: str) -> str:
    """The group that a retry topic belongs to; pop's are named `%RETRY%group+topic`."""
    group, plus, topic = retry_topic.removeprefix(RETRY_PREFIX).partition("+")
    return group if plus and topic and "+" not in topic else retry_topic.removeprefix(RETRY_PREFIX)


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def topic_fault(topic: str) -> str | None:
    """What is wrong with a topic name, as a sentence; None if nothing is."""
    if not topic or topic.isspace():
        return "The specified topic is blank."
    if not _ALLOWED.match(topic):
        return f"The specified topic: {topic}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if is_retry_or_dlq(topic):
        if len(topic) > RETRY_TOPIC_LENGTH_MAX:
            return (
                f"The specified topic is DLQ or Retry topic: {topic}, "
                f"and it's longer than topic max length: {RETRY_TOPIC_LENGTH_MAX}"
            )
    elif len(topic) > TOPIC_LENGTH_MAX:
        return f"The specified topic: {topic}, is longer than topic max length: {TOPIC_LENGTH_MAX}"
    return None


def stored_topic_fault(topic: str) -> str | None:
    """The same where the store makes a folder of it: pop's retry topics may have a `+` that nobody may send to."""
    return topic_fault(topic.replace("+", "_") if topic.startswith(RETRY_PREFIX) else topic)


def group_fault(group: str) -> str | None:
    """What is wrong with a group name, as a sentence; None if nothing is."""
    if not group or group.isspace():
        return "The specified group is blank."
    if not _ALLOWED.match(group):
        return f"The specified group: {group}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(group) > GROUP_LENGTH_MAX:
        return f"The specified group: {group}, is longer than group max length: {GROUP_LENGTH_MAX}"
    return None


def lite_queue(topic: str, lite_topic: str) -> str:
    """The queue of a lite topic: a light one, named after the topic that holds it."""
    return f"{LMQ_PREFIX}${topic}${lite_topic}"
