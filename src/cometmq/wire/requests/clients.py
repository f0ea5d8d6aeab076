"""What a broker asks of a client for an operator; the answers are bodies.

Mirrors: GetConsumerStatusRequestHeader, GetConsumerRunningInfoRequestHeader,
ConsumeMessageDirectlyResultRequestHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, request


@request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
class GetConsumerStatus(Header):
    """How far is the group with this topic in this client?"""

    topic: str
    group: str
    client_addr: str | None = None


@request(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetConsumerRunningInfo(Header):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@request(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectly(Header):
    """The body is the record of a message that the listener should be given now."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
