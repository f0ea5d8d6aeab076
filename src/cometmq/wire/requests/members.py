"""Clients and the groups they belong to.

Mirrors: HeartbeatRequestHeader, UnregisterClientRequestHeader, GetConsumerListByGroupRequestHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, named, request


class HeartBeatReply(Header):
    is_support_heart_beat_v2: bool = named("IS_SUPPORT_HEART_BEAT_V2", default=True)
    is_sub_change: bool = named("IS_SUB_CHANGE", default=True)


@request(RequestCode.HEART_BEAT, reply=HeartBeatReply)
class HeartBeat(Header):
    """The body tells who lives in the client: `wire.bodies.heartbeat`."""


@request(RequestCode.UNREGISTER_CLIENT)
class UnregisterClient(Header):
    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@request(RequestCode.CHECK_CLIENT_CONFIG)
class CheckClientConfig(Header):
    """The body names a subscription whose expression is to be checked."""


@request(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerListByGroup(Header):
    consumer_group: str


@request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChanged(Header):
    """Sent by the broker to the members of a group, one-way."""

    consumer_group: str


@request(RequestCode.LOCK_BATCH_MQ)
class LockBatchMq(Header):
    """The body names who wants which queues: `wire.bodies.queues`. So does that of the next one."""


@request(RequestCode.UNLOCK_BATCH_MQ)
class UnlockBatchMq(Header):
    pass


@request(RequestCode.QUERY_ASSIGNMENT)
class QueryAssignment(Header):
    """The body says who asks for the queues of which topic: `wire.bodies.assignment`."""


@request(RequestCode.SET_MESSAGE_REQUEST_MODE)
class SetMessageRequestMode(Header):
    """The body says whether a group pulls or pops a topic."""


@request(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
class GetAllMessageRequestMode(Header):
    pass
