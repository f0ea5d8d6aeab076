"""What is asked about messages with a priority."""

from __future__ import annotations

from .broker_scripts import CREATE, CREATE_GROUP, PROPERTIES, PULL, READ_BACK, SEND_V2
from .pop_scripts import NOW
from .script import Pause, Script


def with_priority(text: str, more: str = "") -> str:
    return f"{PROPERTIES}_SYS_MSG_PRIORITY_\x01{text}\x02{more}"


URGENT = SEND_V2.but(i=with_priority("3"))
ONE = NOW.but(queueId="-1", maxMsgNums="1")  # of all queues: which comes first?

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        URGENT,
        title="broker takes the priority for the queue",
        before=(CREATE,),
        after=(*READ_BACK, PULL.but(queueId="3"), PULL.but(queueId="0")),
        more={
            "lowest": SEND_V2.but(i=with_priority("0")),
            "beyond the last queue": SEND_V2.but(i=with_priority("77")),
            "negative": SEND_V2.but(i=with_priority("-2")),
            "no number": SEND_V2.but(i=with_priority("high")),
            "too large a number": SEND_V2.but(i=with_priority("99999999999")),
            "of an ordered message": SEND_V2.but(i=with_priority("3", "__SHARDINGKEY\x01k\x02")),
        },
        fresh=True,
    ),
    Script(
        "broker",
        ONE,
        title="pop hands out by priority",
        before=(
            CREATE_GROUP,
            CREATE.but(attributes="+message.type=PRIORITY"),
            *(SEND_V2.but(i=with_priority(priority)) for priority in ("0", "1", "0", "1")),
            *READ_BACK,
        ),
        after=(Pause(), ONE, Pause(), ONE, Pause(), ONE),
        fresh=True,
        more={"many": ONE.but(maxMsgNums="3"), "of one queue": ONE.but(queueId="0")},
    ),
)
