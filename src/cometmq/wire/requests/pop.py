"""Pop: taking messages one by one from whole topics, acknowledging them, and asking whether there are any.

Java reads a number that is missing here as 0 where its field is a primitive, and stumbles where it is an object; both
are declared as they are met: `lenient` for the first, None for the second (the handler refuses).

Mirrors: PopMessageRequestHeader, AckMessageRequestHeader, ChangeInvisibleTimeRequestHeader, PeekMessageRequestHeader,
NotificationRequestHeader, PollingInfoRequestHeader and their replies.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, lenient, request


class PopMessageReply(Header):
    pop_time: int
    invisible_time: int
    revive_qid: Int32
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@request(RequestCode.POP_MESSAGE, reply=PopMessageReply)
class PopMessage(Header):
    consumer_group: str
    topic: str
    queue_id: Int32 = lenient(0)
    max_msg_nums: Int32 = lenient(0)
    invisible_time: int = lenient(0)
    poll_time: int = lenient(0)
    born_time: int = lenient(0)
    init_mode: Int32 = lenient(0)
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


@request(RequestCode.ACK_MESSAGE)
class AckMessage(Header):
    topic: str
    consumer_group: str | None = None
    queue_id: Int32 | None = None
    extra_info: str | None = None
    offset: int | None = None
    lite_topic: str | None = None


@request(RequestCode.BATCH_ACK_MESSAGE)
class BatchAckMessage(Header):
    """The acknowledgements are in the body: `bodies.acks`."""


class ChangeInvisibleTimeReply(Header):
    pop_time: int = 0
    invisible_time: int = 0
    revive_qid: Int32 = 0


@request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, reply=ChangeInvisibleTimeReply)
class ChangeInvisibleTime(Header):
    topic: str
    consumer_group: str | None = None
    queue_id: Int32 | None = None
    extra_info: str | None = None
    offset: int | None = None
    invisible_time: int | None = None
    lite_topic: str | None = None
    suspend: bool = False


@request(RequestCode.PEEK_MESSAGE, reply=PopMessageReply)
class PeekMessage(Header):
    consumer_group: str
    topic: str
    queue_id: Int32 = lenient(0)
    max_msg_nums: Int32 = lenient(0)


class NotificationReply(Header):
    has_msg: bool = False
    polling_full: bool = False


@request(RequestCode.NOTIFICATION, reply=NotificationReply)
class Notification(Header):
    consumer_group: str
    topic: str
    queue_id: Int32 = lenient(0)
    poll_time: int = lenient(0)
    born_time: int = lenient(0)
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class PollingInfoReply(Header):
    polling_num: Int32


@request(RequestCode.POLLING_INFO, reply=PollingInfoReply)
class PollingInfo(Header):
    consumer_group: str
    topic: str
    queue_id: Int32 = lenient(0)


@request(RequestCode.POP_ROLLBACK)
class PopRollback(Header):
    """Moves what the RocksDB store of pop keeps back to the files; here everything is in the files."""
