"""What a broker's answer to a send means: it is stored, try again, or give up, and what to tell the program.

`STATUS` has the codes that acknowledge, `AGAIN` those after which another broker, or the same one later, may take the
message; of these the ones in `PAUSE` would say the same if asked again at once.
"""

from __future__ import annotations

from typing import Final

from cometmq.client.message import SendStatus
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command

STATUS: Final = {
    int(ResponseCode.SUCCESS): SendStatus.OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}
GO_AWAY: Final = int(ResponseCode.GO_AWAY)
AGAIN: Final = frozenset(
    {
        GO_AWAY,
        int(ResponseCode.TOPIC_NOT_EXIST),
        int(ResponseCode.SERVICE_NOT_AVAILABLE),
        int(ResponseCode.SYSTEM_ERROR),
        int(ResponseCode.SYSTEM_BUSY),
        int(ResponseCode.NO_PERMISSION),
        int(ResponseCode.NOT_IN_CURRENT_UNIT),
        int(ResponseCode.FLOW_CONTROL),
    }
)
PAUSE: Final = frozenset({GO_AWAY, int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.FLOW_CONTROL)})
_HINTS: Final = {
    int(ResponseCode.TOPIC_NOT_EXIST): "create the topic first, or let the broker do it (autoCreateTopicEnable)",
    int(ResponseCode.NO_PERMISSION): "the broker or the topic is read-only, or an ACL forbids it",
    int(ResponseCode.MESSAGE_ILLEGAL): "the broker's limits are narrower (maxMessageSize, timerMaxDelaySec)",
    int(ResponseCode.SYSTEM_BUSY): "the broker has more to do than it can; send slower, or add brokers",
    int(ResponseCode.FLOW_CONTROL): "the broker has more to do than it can; send slower, or add brokers",
    int(ResponseCode.SERVICE_NOT_AVAILABLE): "the broker takes no writes now: its disk is full, or it is stopping",
}


def reason(answer: Command) -> str:
    """Why a message was refused, in words, and what to do."""
    hint = _HINTS.get(answer.code)
    return f"it answered code {answer.code}: {answer.remark or 'no reason'}{f' ({hint})' if hint else ''}"
