"""Sending: one message (V1 with full names, V2 with one-letter ones), batches.

Mirrors: SendMessageRequestHeader, SendMessageRequestHeaderV2, SendMessageResponseHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, lenient, named, request


class SendMessageReply(Header):
    msg_id: str
    queue_id: Int32
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


@request(RequestCode.SEND_MESSAGE, reply=SendMessageReply)
class SendMessage(Header):
    producer_group: str = lenient("")
    topic: str
    default_topic: str = lenient("")
    default_topic_queue_nums: Int32 = lenient(0)
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False


@request(RequestCode.SEND_MESSAGE_V2, reply=SendMessageReply)
class SendMessageV2(Header):
    strict = True

    producer_group: str = named("a", missing="")
    topic: str = named("b")
    default_topic: str = named("c", missing="")
    default_topic_queue_nums: Int32 = named("d", missing=0)
    queue_id: Int32 = named("e")
    sys_flag: Int32 = named("f")
    born_timestamp: int = named("g")
    flag: Int32 = named("h")
    properties: str | None = named("i", default=None)
    reconsume_times: Int32 = named("j", default=0)
    unit_mode: bool = named("k", default=False)
    max_reconsume_times: Int32 | None = named("l", default=None)
    batch: bool = named("m", default=False)
    broker_name: str | None = named("n", default=None)


@request(RequestCode.SEND_BATCH_MESSAGE, reply=SendMessageReply)
class SendBatchMessage(SendMessageV2):
    """Many messages of one topic and queue; the body holds their sub-records (`wire.batch`)."""


@request(RequestCode.SEND_REPLY_MESSAGE, reply=SendMessageReply)
class SendReplyMessage(SendMessage):
    """The answer of a consumer to a message that asked for one."""

    topic: str = lenient("")
    sys_flag: Int32 = lenient(0)


@request(RequestCode.SEND_REPLY_MESSAGE_V2, reply=SendMessageReply)
class SendReplyMessageV2(SendMessageV2):
    """The same with one-letter names."""

    topic: str = named("b", missing="")
    sys_flag: Int32 = named("f", missing=0)


@request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class PushReplyMessage(Header):
    """The answer on its way to the client that asked; the body is the message's."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str | None
    reconsume_times: Int32 | None
    unit_mode: bool
    born_host: str
    store_host: str
    store_timestamp: int
