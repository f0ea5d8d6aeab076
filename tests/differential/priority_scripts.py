"""What is asked about messages with a priority."""

from __future__ import annotations

from .broker_scripts import CREATE, PROPERTIES, PULL, READ_BACK, SEND_V2
from .script import Script


def with_priority(text: str, more: str = "") -> str:
    return f"{PROPERTIES}_SYS_MSG_PRIORITY_\x01{text}\x02{more}"


URGENT = SEND_V2.but(i=with_priority("3"))

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
)
