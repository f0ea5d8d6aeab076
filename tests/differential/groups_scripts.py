"""What the brokers are asked about groups that are moved, forbidden and joined."""

from __future__ import annotations

from dataclasses import replace

from .assignment_scripts import heartbeat
from .broker_scripts import CREATE, CREATE_GROUP, PULL, QUERY_OFFSET, SEND_V2, UPDATE_OFFSET, stored
from .script import Ask, Script

FORBID = Ask(353, {"group": "{group}", "topic": "{topic}", "readable": "false"})
ASK_FORBIDDEN = Ask(353, {"group": "{group}", "topic": "{topic}"})
RESET = Ask(222, {"group": "{group}", "topic": "{topic}", "timestamp": "0", "isForce": "true", "queueId": "1"})
ONE_QUEUE = CREATE.but(readQueueNums="1", writeQueueNums="1")
FIVE_MESSAGES = (CREATE, CREATE_GROUP, *(SEND_V2,) * 5, stored(5))
SUBSCRIBED = heartbeat(1)
SUBSCRIBED_PULL = replace(PULL.but(sysFlag="0", commitOffset="4"), peer="{client}_1")
COMMITTING_PULL = replace(PULL.but(sysFlag="5", commitOffset="4"), peer="{client}_1")

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        FORBID,
        before=(CREATE, CREATE_GROUP, SUBSCRIBED),
        after=(ASK_FORBIDDEN, SUBSCRIBED_PULL),
        fresh=True,
        more={
            "only asked": ASK_FORBIDDEN,
            "allowed": FORBID.but(readable="true"),
            "neither": FORBID.but(readable=""),
        },
    ),
    Script(
        "broker",
        FORBID,
        before=(CREATE, CREATE_GROUP, *(SEND_V2,) * 2, stored(2), SUBSCRIBED, SUBSCRIBED_PULL),
        after=(
            SUBSCRIBED_PULL,
            PULL,
            FORBID.but(topic="{topic}_2"),
            FORBID.but(readable="true"),
            ASK_FORBIDDEN,
            SUBSCRIBED_PULL,
            ASK_FORBIDDEN.but(topic="{topic}_2"),
        ),
        title="a group is forbidden to read and allowed again",
    ),
    Script(
        "broker",
        RESET,
        before=FIVE_MESSAGES,
        after=(QUERY_OFFSET, PULL.but(queueOffset="3"), PULL.but(queueOffset="3")),
        fresh=True,
        more={
            "to the end": RESET.but(timestamp="-1"),
            "to now": RESET.but(timestamp="{now}"),
            "to an offset": RESET.but(offset="2"),
            "to the offset after the next": RESET.but(offset="6"),
            "far beyond": RESET.but(offset="7"),
            "to a negative offset": RESET.but(offset="-2"),
            "to no offset": RESET.but(offset="-1"),
            "an offset of no queue": RESET.but(offset="2", queueId="9"),
            "the time in no queue": RESET.but(queueId="9"),
        },
    ),
    Script(
        "broker",
        RESET.but(queueId="-1", offset="3"),
        before=(ONE_QUEUE, CREATE_GROUP),
        after=(QUERY_OFFSET.but(queueId="0"),),
        title="all queues of a topic are reset",
    ),
    Script(
        "broker",
        RESET.but(offset="2"),
        before=(*FIVE_MESSAGES, SUBSCRIBED, UPDATE_OFFSET.but(commitOffset="5"), QUERY_OFFSET),
        after=(
            QUERY_OFFSET,
            UPDATE_OFFSET.but(commitOffset="5"),
            QUERY_OFFSET,
            COMMITTING_PULL.but(queueOffset="5"),
            COMMITTING_PULL.but(queueOffset="2", commitOffset="2"),
            UPDATE_OFFSET.but(commitOffset="3"),
            QUERY_OFFSET,
        ),
        title="a group is moved while it consumes",
    ),
)
