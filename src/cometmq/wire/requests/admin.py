"""Topics and groups: create, look up, list, delete; and how a broker fares.

Mirrors: CreateTopicRequestHeader, DeleteTopicRequestHeader, GetAllTopicConfigRequestHeader and their kin.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, request


@request(RequestCode.UPDATE_AND_CREATE_TOPIC)
class CreateTopic(Header):
    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str | None = None
    default_topic: str | None = None
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool = False


@request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
class CreateTopicList(Header):
    """The body lists topic configurations."""


@request(RequestCode.GET_BROKER_RUNTIME_INFO)
class GetBrokerRuntimeInfo(Header):
    """The answer's body is a table of names and texts."""


@request(RequestCode.DELETE_TOPIC_IN_BROKER)
class DeleteTopicInBroker(Header):
    topic: str | None = None


class AllTopicConfigReply(Header):
    total_topic_num: Int32 | None = None


@request(RequestCode.GET_ALL_TOPIC_CONFIG, reply=AllTopicConfigReply)
class GetAllTopicConfig(Header):
    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


@request(RequestCode.GET_TOPIC_CONFIG)
class GetTopicConfig(Header):
    topic: str


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
class CreateGroup(Header):
    """The body is the group's configuration."""


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
class CreateGroupList(Header):
    """The body lists group configurations."""


class AllGroupConfigReply(Header):
    total_group_num: Int32 | None = None


@request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, reply=AllGroupConfigReply)
class GetAllGroupConfig(Header):
    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


@request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetGroupConfig(Header):
    group: str


@request(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteGroup(Header):
    group_name: str
    clean_offset: bool = False


@request(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
class UpdateGroupForbidden(Header):
    """May the group read the topic? Without `readable` it is only asked."""

    group: str
    topic: str
    readable: bool | None = None


@request(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
class CleanExpiredConsumeQueue(Header):
    """Drop queues of which no message is left."""


@request(RequestCode.CLEAN_UNUSED_TOPIC)
class CleanUnusedTopic(Header):
    """Drop queues of topics that are no longer configured."""


@request(RequestCode.DELETE_EXPIRED_COMMITLOG)
class DeleteExpiredCommitLog(Header):
    """Delete expired segments now, whatever the hour."""
