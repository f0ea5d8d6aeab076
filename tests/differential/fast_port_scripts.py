"""What brokers answer on their fast port (broker port - 2): whatever hands out messages is on the main port only."""

from __future__ import annotations

from cometmq.wire.codes import RequestCode

from .broker_scripts import CREATE, CREATE_GROUP, PULL, SEND
from .handled import handled
from .pop_scripts import NOTIFICATION, PEEK, POLLING_INFO, POP
from .script import Ask, Script

LITE_PULL = Ask(RequestCode.LITE_PULL_MESSAGE, PULL.fields)
POP_LITE = Ask(RequestCode.POP_LITE_MESSAGE, POP.fields)
UNKNOWN = Ask(32_000)
# Those of CometMQ alone are asked elsewhere.
CODES = {int(one.code) for one in handled("broker")} - {RequestCode.GET_EXTENSIONS, RequestCode.END_TRANSACTIONS}

SCRIPTS: tuple[Script, ...] = (
    Script(
        "fast",
        PULL,
        title="fast port",
        before=(CREATE, CREATE_GROUP, SEND),
        after=(LITE_PULL, PEEK, POP, POP_LITE, NOTIFICATION, POLLING_INFO, UNKNOWN),
    ),
    Script(
        "fast",
        Ask(UNKNOWN.code, only_known=True),
        title="codes of the fast port",
        after=tuple(Ask(code, only_known=True) for code in sorted(CODES)),
    ),
)
