"""The ports of a broker beside its main one, and what each is for.

The fast port is a second door for those who send, so that they need not stand in line behind readers: whatever hands
out messages or waits for them is asked on the main port only.

Mirrors: BrokerController.registerProcessor.
"""

from __future__ import annotations

from typing import Final

from cometmq.wire.codes import RequestCode

FAST_PORT_SHIFT: Final = -2
HA_PORT_SHIFT: Final = 1

ON_MAIN_PORT_ONLY: Final = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.PEEK_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.POP_LITE_MESSAGE,
    RequestCode.NOTIFICATION,
    RequestCode.POLLING_INFO,
)
