"""Messages that come later: sent back by a consumer, and how far the delay levels are.

Mirrors: ConsumerSendMsgBackRequestHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, request


@request(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBack(Header):
    """A consumer could not consume a message, named by its physical offset; `delay_level` -1 gives it up.

    Offset and level may be missing: the original looks at the group first.
    """

    group: str
    offset: int | None = None
    delay_level: Int32 | None = None
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


@request(RequestCode.GET_ALL_DELAY_OFFSET)
class GetAllDelayOffset(Header):
    """How far each delay level is, as `delayOffset.json` holds it."""
