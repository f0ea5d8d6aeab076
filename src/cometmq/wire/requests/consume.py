"""Pulling, consumer offsets and looking offsets up.

Mirrors: PullMessageRequestHeader, QueryConsumerOffsetRequestHeader, SearchOffsetRequestHeader and their kin.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, lenient, request


class PullMessageReply(Header):
    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


@request(RequestCode.PULL_MESSAGE, reply=PullMessageReply)
class PullMessage(Header):
    strict = True

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int = lenient(0)
    suspend_timeout_millis: int = lenient(0)
    sub_version: int = lenient(0)
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None


@request(RequestCode.LITE_PULL_MESSAGE, reply=PullMessageReply)
class LitePullMessage(PullMessage):
    """A pull that the broker's flow control counts apart."""


class OffsetReply(Header):
    offset: int


class EarliestTimeReply(Header):
    timestamp: int


@request(RequestCode.QUERY_CONSUMER_OFFSET, reply=OffsetReply)
class QueryConsumerOffset(Header):
    topic: str
    queue_id: Int32
    consumer_group: str | None = None
    set_zero_if_not_found: bool | None = None


@request(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffset(Header):
    topic: str
    consumer_group: str | None = None
    queue_id: Int32 | None = None
    commit_offset: int | None = None


@request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, reply=OffsetReply)
class SearchOffset(Header):
    topic: str
    queue_id: Int32
    timestamp: int
    boundary_type: str | None = None


@request(RequestCode.GET_MAX_OFFSET, reply=OffsetReply)
class GetMaxOffset(Header):
    topic: str
    queue_id: Int32
    committed: bool = True


@request(RequestCode.GET_MIN_OFFSET, reply=OffsetReply)
class GetMinOffset(Header):
    topic: str
    queue_id: Int32


@request(RequestCode.GET_EARLIEST_MSG_STORETIME, reply=EarliestTimeReply)
class GetEarliestStoreTime(Header):
    topic: str
    queue_id: Int32


@request(RequestCode.GET_ALL_CONSUMER_OFFSET)
class GetAllConsumerOffset(Header):
    """Everything that all groups have committed, as `consumerOffset.json` holds it."""


@request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
class ResetOffset(Header):
    """Move a group to a time, or one queue of it to an offset."""

    topic: str
    timestamp: int = lenient(0)
    is_force: bool = lenient(False)
    group: str | None = None
    queue_id: Int32 = -1
    offset: int | None = None


@request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
class ResetOffsetInClient(Header):
    """Sent by the broker to the members of a group, one-way; the body says where they go on."""

    group: str
    topic: str
    timestamp: int
    is_force: bool = False
    queue_id: Int32 = -1
    offset: int | None = None
