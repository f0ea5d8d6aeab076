"""Messages for any time: calling one back, and how far the timer is.

Mirrors: RecallMessageRequestHeader, RecallMessageResponseHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, request


class RecallMessageReply(Header):
    msg_id: str


@request(RequestCode.RECALL_MESSAGE, reply=RecallMessageReply)
class RecallMessage(Header):
    producer_group: str | None = None
    topic: str | None = None
    recall_handle: str | None = None


@request(RequestCode.GET_TIMER_CHECK_POINT)
class GetTimerCheckPoint(Header):
    """The answer's body is the checkpoint as Java knows it; `with_log_offset`, an extension, wants our part, too."""

    with_log_offset: bool | None = None


@request(RequestCode.GET_TIMER_METRICS)
class GetTimerMetrics(Header):
    """The answer's body is JSON."""
