"""What others may ask about delay levels.

Mirrors: AdminBrokerProcessor.getAllDelayOffset.
"""

from __future__ import annotations

from cometmq.broker.delay.progress import DelayOffsets
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.wire import fastjson
from cometmq.wire.requests.delay import GetAllDelayOffset


class DelayHandlers:
    """Shows how far the levels are."""

    def __init__(self, progress: DelayOffsets) -> None:
        self._progress = progress

    @handles(GetAllDelayOffset)
    def all_delay_offset(self, request: GetAllDelayOffset, call: Call) -> Later:
        call.reply(body=fastjson.dumps(self._progress.reply_json(), strict=False))
        return LATER
