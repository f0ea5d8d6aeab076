"""What the brokers are asked about groups that are moved, forbidden and joined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .assignment_scripts import heartbeat
from .broker_scripts import CREATE, CREATE_GROUP, PULL, QUERY_OFFSET, SEND_V2, UPDATE_OFFSET, stored
from .script import Ask, Closed, Pushed, Script, Silent

FORBID = Ask(353, {"group": "{group}", "topic": "{topic}", "readable": "false"})
ASK_FORBIDDEN = Ask(353, {"group": "{group}", "topic": "{topic}"})
RESET = Ask(222, {"group": "{group}", "topic": "{topic}", "timestamp": "0", "isForce": "true", "queueId": "1"})
ONE_QUEUE = CREATE.but(readQueueNums="1", writeQueueNums="1")
FIVE_MESSAGES = (CREATE, CREATE_GROUP, *(SEND_V2,) * 5, stored(5))
SUBSCRIBED = heartbeat(1)
SUBSCRIBED_PULL = replace(PULL.but(sysFlag="0", commitOffset="4"), peer="{client}_1")
COMMITTING_PULL = replace(PULL.but(sysFlag="5", commitOffset="4"), peer="{client}_1")
PROXY_PULL = PULL.but(queueOffset="-1", requestSource="1", proxyFrowardClientId="{client}_1")
UNREGISTER = replace(
    Ask(35, {"clientID": "{client}_2", "consumerGroup": "{group}", "producerGroup": "{group}"}), peer="{client}_2"
)
MEMBERS = Ask(38, {"consumerGroup": "{group}"})


def subscribed(number: int, *topics: str, **fields: Any) -> Ask:
    """A heartbeat with other topics, another fingerprint and the like."""
    beat = heartbeat(number)
    consumer = beat.body["consumerDataSet"][0]
    subscription = consumer["subscriptionDataSet"][0]
    wanted = [{**subscription, "topic": topic} for topic in topics or ("{topic}",)]
    changed = {**consumer, "subscriptionDataSet": wanted, **fields.pop("consumer", {})}
    return replace(beat, body={**beat.body, "consumerDataSet": [changed], **fields})


def told(number: int) -> Pushed:
    return Pushed(f"{{client}}_{number}")


def members(*numbers: int) -> Ask:
    """The member list, once it is as it should become."""
    wanted = len(numbers)
    return replace(MEMBERS, until=lambda answer, _known: str(answer.get("body")).count("client_") == wanted)


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
    Script(
        "broker",
        subscribed(2),
        before=(CREATE, CREATE_GROUP, subscribed(1), told(1)),
        after=(told(2), told(1), members(1, 2), UNREGISTER, told(1), members(1)),
        title="a member joins and leaves",
    ),
    Script(
        "broker",
        subscribed(2),
        before=(CREATE, CREATE_GROUP, subscribed(1), told(1)),
        after=(told(2), told(1), Closed("{client}_2"), told(1), members(1)),
        title="the connection of a member is lost",
    ),
    Script(
        "broker",
        subscribed(1, "{topic}", "{topic}_more"),
        before=(CREATE, CREATE_GROUP, subscribed(1), told(1), subscribed(2), told(2), told(1)),
        after=(told(1), told(2), subscribed(2, "{topic}", "{topic}_more"), members(1, 2)),
        title="a member subscribes to one topic more",
    ),
    Script(
        "broker",
        subscribed(2, consumer={"messageModel": "BROADCASTING"}),
        before=(CREATE, CREATE_GROUP, subscribed(1, consumer={"messageModel": "BROADCASTING"})),
        after=(members(1, 2), Silent("{client}_1"), Closed("{client}_2"), members(1), Silent("{client}_1")),
        title="members of a broadcasting group are not told",
    ),
    Script(
        "broker",
        subscribed(1, heartbeatFingerprint=5),
        before=(CREATE, CREATE_GROUP),
        after=(
            told(1),
            subscribed(1, heartbeatFingerprint=5, withoutSub=True),
            subscribed(1, "{topic}_other", heartbeatFingerprint=5, withoutSub=True),
            SUBSCRIBED_PULL,
            subscribed(1, heartbeatFingerprint=6),
            subscribed(2, heartbeatFingerprint=6, withoutSub=True),
            told(1),
            subscribed(2, heartbeatFingerprint=0),
            subscribed(2, heartbeatFingerprint=6),
        ),
        title="heartbeats of version 2",
    ),
    Script(
        "broker",
        PROXY_PULL,
        before=FIVE_MESSAGES,
        after=(
            PROXY_PULL.but(queueOffset="0"),
            PROXY_PULL.but(queueOffset="3"),
            PROXY_PULL,
            PROXY_PULL.but(queueOffset="1"),
            PROXY_PULL,
            PROXY_PULL.but(proxyFrowardClientId="{client}_2"),
            subscribed(1, consumer={"messageModel": "BROADCASTING"}),
            SUBSCRIBED_PULL,
            SUBSCRIBED_PULL.but(queueOffset="4"),
            PROXY_PULL.but(queueOffset="2"),
            PROXY_PULL.but(queueOffset="99"),
        ),
        title="a broadcasting client begins where it was",
    ),
)
