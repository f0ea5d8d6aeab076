"""What is asked about messages of lite topics, as far as clients of the Remoting protocol can send them.

The names and properties are the broker's business; queues of their own they have with `enableLmq` and
`enableMultiDispatch` only, which are off, and only proxies read them.
"""

from __future__ import annotations

from .broker_scripts import CREATE, CREATE_GROUP, PROPERTIES, PULL, READ_BACK, SEND_V2
from .pop_scripts import NOW
from .script import Script


def lite(more: str = "", name: str = "child") -> str:
    return f"{PROPERTIES}__LITE_TOPIC\x01{name}\x02{more}"


QUEUE = "%LMQ%${topic}$child"

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        SEND_V2.but(i=lite()),
        title="broker names the queue of a lite topic",
        before=(CREATE_GROUP, CREATE.but(attributes="+message.type=LITE")),
        after=(*READ_BACK, PULL.but(topic=QUEUE, queueId="0"), NOW.but(queueId="-1")),
        more={
            "without a name": SEND_V2.but(i=lite(name="")),
            "with another queue": SEND_V2.but(i=lite("INNER_MULTI_DISPATCH\x01%LMQ%other\x02")),
            "with a queue alone": SEND_V2.but(i=PROPERTIES + "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"),
            "with a priority": SEND_V2.but(i=lite("_SYS_MSG_PRIORITY_\x013\x02")),
            "in order": SEND_V2.but(i=lite("__SHARDINGKEY\x01k\x02")),
            "later": SEND_V2.but(i=lite("DELAY\x011\x02")),
            "to its queue itself": SEND_V2.but(b=QUEUE),
        },
        fresh=True,
    ),
)
