"""What the brokers are asked about assignments and request modes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .broker_scripts import CREATE, CREATE_GROUP
from .script import Ask, Script, Step

QUERY = Ask(
    400,
    body={
        "clientId": "{client}_1",
        "consumerGroup": "{group}",
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": "{topic}",
    },
)
MODE = Ask(401, body={"consumerGroup": "{group}", "mode": "POP", "popShareQueueNum": 1, "topic": "{topic}"})
ALL_MODES = Ask(402)
FIVE_QUEUES = CREATE.but(readQueueNums="5", writeQueueNums="5")
# A broker asks the name server, which hears of a new topic a moment later.
ROUTED = replace(QUERY, until=lambda answer, _known: '"messageQueue"' in str(answer.get("body")).replace("'", '"'))


def heartbeat(number: int) -> Ask:
    client = f"{{client}}_{number}"
    return Ask(
        34,
        body={
            "clientID": client,
            "consumerDataSet": [
                {
                    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                    "consumeType": "CONSUME_PASSIVELY",
                    "groupName": "{group}",
                    "messageModel": "CLUSTERING",
                    "subscriptionDataSet": [
                        {"subString": "*", "subVersion": 1, "topic": "{topic}", "expressionType": "TAG"}
                    ],
                    "unitMode": False,
                }
            ],
            "producerDataSet": [],
        },
        peer=client,
    )


def query(**fields: Any) -> Ask:
    return replace(QUERY, body={**QUERY.body, **fields})


def mode(**fields: Any) -> Ask:
    return replace(MODE, body={**MODE.body, **fields})


def members(count: int) -> tuple[Step, ...]:
    return tuple(heartbeat(number) for number in range(1, count + 1))


def each(count: int, **fields: Any) -> tuple[Step, ...]:
    return tuple(query(clientId=f"{{client}}_{number}", **fields) for number in range(1, count + 1))


def shared(clients: int, share: int) -> Script:
    """Clients that pop, each with as many that share its queues."""
    return Script(
        "broker",
        mode(popShareQueueNum=share),
        before=(FIVE_QUEUES, CREATE_GROUP, *members(clients), ROUTED),
        after=(*each(clients), *each(clients, strategyName="AVG_BY_CIRCLE"), query(clientId="{client}_stranger")),
        title=f"{clients} clients pop and {share} share",
    )


SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        QUERY,
        before=(FIVE_QUEUES, CREATE_GROUP, *members(2), ROUTED),
        more={
            "the other client": query(clientId="{client}_2"),
            "by circle": query(strategyName="AVG_BY_CIRCLE"),
            "the other client by circle": query(clientId="{client}_2", strategyName="AVG_BY_CIRCLE"),
            "a stranger": query(clientId="{client}_stranger"),
            "no name": query(clientId=""),
            "broadcasting": query(messageModel="BROADCASTING"),
            "broadcasting without a group": query(messageModel="BROADCASTING", consumerGroup=None),
            "lite topics": query(messageModel="LITE_SELECTIVE"),
            "an unknown model": query(messageModel="OTHER"),
            "an unknown strategy": query(strategyName="CONSISTENT_HASH"),
            "an absent topic": query(topic="absent_{topic}"),
            "an absent group": query(consumerGroup="absent_{group}"),
            "a queue of many": query(topic="%LMQ%{topic}"),
            "a retry topic": query(topic="%RETRY%{group}"),
            "an absent retry topic": query(topic="%RETRY%absent_{group}"),
        },
    ),
    Script(
        "broker",
        MODE,
        before=(CREATE, CREATE_GROUP),
        after=(ALL_MODES,),
        fresh=True,
        more={
            "pulling": mode(mode="PULL"),
            "an unknown mode": mode(mode="OTHER"),
            "no mode": mode(mode=None),
            "fewer than none": mode(popShareQueueNum=-3),
            "an absent topic": mode(topic="absent_{topic}"),
            "an absent group": mode(consumerGroup="absent_{group}"),
            "a bad group": mode(consumerGroup="not a group"),
            "a retry topic": mode(topic="%RETRY%{group}"),
        },
    ),
    Script("broker", ALL_MODES, before=(CREATE, CREATE_GROUP, MODE)),
    shared(2, 0),
    shared(4, 1),
    shared(4, 2),
    shared(4, 3),
    shared(7, 1),
    Script(
        "broker",
        mode(mode="PULL", popShareQueueNum=3),
        before=(FIVE_QUEUES, CREATE_GROUP, *members(7), ROUTED),
        after=(*each(7), *each(7, strategyName="AVG_BY_CIRCLE"), query(messageModel="BROADCASTING")),
        title="more clients than queues",
    ),
)
