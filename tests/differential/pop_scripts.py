"""Pop, and what goes with it: each request good and bad, receipts that are made up or stale, and a few scenes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .broker_scripts import CREATE, CREATE_GROUP, PROPERTIES, QUERY_OFFSET, SEND_V2, THREE, stored
from .script import Ask, Await, Pause, Script

POP = Ask(
    200050,
    {
        "consumerGroup": "{group}",
        "topic": "{topic}",
        "queueId": "1",
        "maxMsgNums": "2",
        "invisibleTime": "60000",
        "pollTime": "60",
        "bornTime": "0",
        "initMode": "0",
        "expType": "TAG",
        "exp": "*",
        "order": "false",
    },
    keep="popped",
)
NOW = POP.but(pollTime="0")
RECEIPT = "0 {popped[popTime]} {popped[invisibleTime]} {popped[reviveQid]} 0 broker-a 1 "
FIRST_RECEIPT = RECEIPT.replace("popped", "first")
ACK = Ask(
    200051,
    {"consumerGroup": "{group}", "topic": "{topic}", "queueId": "1", "extraInfo": RECEIPT + "1", "offset": "1"},
)
CHANGE = replace(ACK.but(invisibleTime="30000", suspend="false"), code=200053)
ACKS: dict[str, Any] = {
    "brokerName": "broker-a",
    "acks": [
        {
            "c": "{group}",
            "t": "{topic}",
            "r": "0",
            "so": 0,
            "q": 1,
            "rq": "{popped[reviveQid]}",
            "pt": "{popped[popTime]}",
            "it": 60000,
            "b": "Aw==",
        }
    ],
}
ACK_BATCH = Ask(200151, body=ACKS)
PEEK = Ask(200052, {"consumerGroup": "{group}", "topic": "{topic}", "queueId": "1", "maxMsgNums": "2"})
NOTIFICATION = Ask(
    200054,
    {
        "consumerGroup": "{group}",
        "topic": "{topic}",
        "queueId": "1",
        "pollTime": "60",
        "bornTime": "0",
        "order": "false",
        "expType": "TAG",
        "exp": "*",
    },
)
POLLING_INFO = Ask(200055, {"consumerGroup": "{group}", "topic": "{topic}", "queueId": "1"})

RESET = Ask(
    222,
    {
        "topic": "{topic}",
        "group": "{group}",
        "timestamp": "-1",
        "isForce": "true",
        "queueId": "1",
        "offset": "1",
    },
)

GROUP_AND_THREE = (CREATE_GROUP, *THREE)
ORDERED = NOW.but(order="true", attemptId="one", invisibleTime="30000")
HELD_BACK = Pause(), NOW
RETRY_TOPIC = "%RETRY%{group}_{topic}"


def _acks(**fields: Any) -> dict[str, Any]:
    return {**ACKS, "acks": [{**ACKS["acks"][0], **fields}]}


def _receipts(ask: Ask) -> dict[str, Ask]:
    """Receipts that no pop gave, or that are not what they seem."""
    return {
        "receipt empty": ask.but(extraInfo=""),
        "receipt of words": ask.but(extraInfo="a b c d e f g h"),
        "receipt cut short": ask.but(extraInfo="0 {popped[popTime]} 60000"),
        "receipt without its queue": ask.but(extraInfo="0 {popped[popTime]} 60000 {popped[reviveQid]} 0 broker-a"),
        "receipt of another pop": ask.but(extraInfo="0 1700000000000 60000 0 0 broker-a 1 1"),
        "receipt of a time far away": ask.but(extraInfo="0 {popped[popTime]} 99999999999 0 0 broker-a 1 1"),
        "receipt of an order": ask.but(extraInfo="0 {popped[popTime]} 60000 999 0 broker-a 1 1"),
        "receipt of another broker": ask.but(extraInfo="0 {popped[popTime]} 60000 0 0 broker-z 1 1"),
        "offset negative": ask.but(offset="-1"),
        "offset at the end": ask.but(offset="3"),
        "offset beyond the end": ask.but(offset="4"),
        "queue out of range": ask.but(queueId="9"),
        "queue negative": ask.but(queueId="-1"),
        "group absent": ask.but(consumerGroup="absent_{group}"),
        "twice": ask,
    }


SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        POP,
        before=GROUP_AND_THREE,
        # The original lets go of a queue a moment after it has answered; a pop in between finds nothing.
        after=(Pause(), NOW.but(maxMsgNums="32"), Pause(), NOW),
        fresh=True,
        more={
            "all queues": POP.but(queueId="-1"),
            "all messages": POP.but(maxMsgNums="32"),
            "too many messages": POP.but(maxMsgNums="33"),
            "no messages": POP.but(maxMsgNums="0"),
            "negative messages": POP.but(maxMsgNums="-1"),
            "queue out of range": POP.but(queueId="2"),
            "queue without messages": POP.but(queueId="0"),
            "from the end": POP.but(initMode="1"),
            "tag b": POP.but(exp="b"),
            "tags": POP.but(exp="a || b", maxMsgNums="32"),
            "no such tag": POP.but(exp="zz"),
            "tags of nothing": POP.but(exp="||"),
            "no expression": POP.but(exp=""),
            "unknown expression type": POP.but(expType="XPATH", exp="a"),
            "born long ago": POP.but(bornTime="1"),
            "born just now": POP.but(bornTime="{now}", pollTime="2000"),
            "no invisible time": POP.but(invisibleTime="0"),
            "in order": POP.but(order="true"),
            "in order, an attempt": POP.but(order="true", attemptId="one"),
            "topic empty": POP.but(topic=""),
            "retry topic": POP.but(topic=RETRY_TOPIC),
        },
    ),
    Script("broker", ACK, before=(*GROUP_AND_THREE, NOW), more=_receipts(ACK)),
    Script(
        "broker",
        ACK_BATCH,
        before=(*GROUP_AND_THREE, NOW),
        more={
            "no acknowledgements": replace(ACK_BATCH, body={"brokerName": "broker-a", "acks": []}),
            "nothing at all": replace(ACK_BATCH, body={}),
            "no broker": replace(ACK_BATCH, body={"acks": ACKS["acks"]}),
            "bits beyond the end": replace(ACK_BATCH, body=_acks(b="////")),
            "no bits": replace(ACK_BATCH, body=_acks(b="AA==")),
            "bits of rubbish": replace(ACK_BATCH, body=_acks(b="?")),
            "in order": replace(ACK_BATCH, body=_acks(rq=999)),
            "of the retry topic": replace(ACK_BATCH, body=_acks(r="1")),
            "of an unknown kind": replace(ACK_BATCH, body=_acks(r="7")),
            "queue out of range": replace(ACK_BATCH, body=_acks(q=9)),
            "another pop": replace(ACK_BATCH, body=_acks(pt=1700000000000)),
        },
    ),
    Script(
        "broker",
        CHANGE,
        before=(*GROUP_AND_THREE, NOW),
        more={
            **_receipts(CHANGE),
            "suspended": CHANGE.but(suspend="true"),
            "no time": CHANGE.but(invisibleTime="0"),
            "time too long": CHANGE.but(invisibleTime="99999999999"),
        },
    ),
    Script(
        "broker",
        PEEK,
        before=GROUP_AND_THREE,
        more={
            "all queues": PEEK.but(queueId="-1"),
            "all messages": PEEK.but(maxMsgNums="32"),
            "no messages": PEEK.but(maxMsgNums="0"),
            "negative messages": PEEK.but(maxMsgNums="-1"),
            "queue out of range": PEEK.but(queueId="9"),
            "queue without messages": PEEK.but(queueId="0"),
        },
    ),
    Script(
        "broker",
        NOTIFICATION,
        before=GROUP_AND_THREE,
        more={
            "all queues": NOTIFICATION.but(queueId="-1"),
            "queue without messages": NOTIFICATION.but(queueId="0"),
            "queue out of range": NOTIFICATION.but(queueId="9"),
            "tag b": NOTIFICATION.but(exp="b"),
            "no such tag": NOTIFICATION.but(exp="zz"),
            "tags of nothing": NOTIFICATION.but(exp="||"),
            "no time": NOTIFICATION.but(queueId="0", pollTime="0"),
            "in order": NOTIFICATION.but(order="true"),
        },
    ),
    Script(
        "broker",
        POLLING_INFO,
        before=GROUP_AND_THREE,
        more={"all queues": POLLING_INFO.but(queueId="-1"), "queue out of range": POLLING_INFO.but(queueId="9")},
    ),
    Script("broker", Ask(200056)),
    Script(
        "broker",
        replace(POP.but(pollTime="3000", queueId="-1"), pending="waiting"),
        before=(CREATE_GROUP, CREATE),
        after=(
            POLLING_INFO.but(queueId="-1"),
            SEND_V2,
            Await("waiting"),
            POLLING_INFO.but(queueId="-1"),
            NOW.but(queueId="-1"),
            replace(NOTIFICATION.but(pollTime="3000"), pending="noticing", peer="other"),
            SEND_V2,
            Await("noticing"),
            NOW.but(queueId="-1"),
        ),
        title="pop waits for a message, and so does a notification",
    ),
    Script(
        "broker",
        ORDERED,
        before=GROUP_AND_THREE,
        after=(
            QUERY_OFFSET,
            ORDERED.but(attemptId="two"),
            NOTIFICATION.but(order="true", pollTime="0"),
            ORDERED,
            ACK,
            QUERY_OFFSET,
            ACK.but(offset="0", extraInfo=RECEIPT + "0"),
            QUERY_OFFSET,
            ACK.but(offset="0", extraInfo=RECEIPT + "0"),
            NOTIFICATION.but(order="true", pollTime="0"),
            ORDERED.but(attemptId="three", invisibleTime="30000"),
            ACK.but(offset="1", extraInfo=RECEIPT + "1"),
            ACK.but(offset="3", extraInfo=RECEIPT + "3"),
            CHANGE.but(offset="1", extraInfo=RECEIPT + "1"),
            CHANGE.but(offset="2", extraInfo=RECEIPT + "2", invisibleTime="0"),
            ORDERED.but(attemptId="four"),
            replace(ACK_BATCH, body=_acks(rq=999, so=2, b="AQ==", it=30000)),
            QUERY_OFFSET,
            ORDERED.but(attemptId="five"),
        ),
        title="pop in order",
    ),
    Script(
        "broker",
        NOW.but(maxMsgNums="32"),
        before=GROUP_AND_THREE,
        after=(
            NOW,
            RESET,
            QUERY_OFFSET,
            NOW,
            NOW,
            NOW,
            ORDERED,
            RESET.but(offset="0"),
            ORDERED.but(attemptId="two"),
            ORDERED.but(attemptId="three"),
        ),
        title="pop goes back where an admin sends it",
    ),
    Script(
        "broker",
        replace(NOW.but(maxMsgNums="6"), keep="first"),
        before=(CREATE_GROUP, CREATE, *(SEND_V2,) * 9, stored(9)),
        after=(
            *HELD_BACK,
            NOW.but(queueId="-1"),
            CHANGE.but(offset="0", extraInfo=FIRST_RECEIPT + "0"),
            *HELD_BACK,
            ACK.but(offset="1", extraInfo=FIRST_RECEIPT + "1"),
            NOW.but(maxMsgNums="1"),
            *HELD_BACK,
            ACK.but(offset="1", extraInfo=FIRST_RECEIPT + "1"),
            NOW.but(maxMsgNums="1"),
            *HELD_BACK,
            ACK.but(offset="2", extraInfo="0 1 60000 {first[reviveQid]} 0 broker-a 1 2"),
            *HELD_BACK,
            replace(ACK_BATCH, body=_acks(rq="{first[reviveQid]}", pt="{first[popTime]}", b="OA==")),
            NOW.but(maxMsgNums="1"),
            RESET.but(offset="0"),
            NOW.but(maxMsgNums="32"),
            *HELD_BACK,
        ),
        title="pop holds back where a group has too many messages under way",
    ),
    Script(
        "broker",
        ORDERED.but(maxMsgNums="6", invisibleTime="300"),
        before=(CREATE_GROUP, CREATE, *(SEND_V2,) * 7, stored(7)),
        after=(Pause(0.5), ORDERED.but(maxMsgNums="6", attemptId="two")),
        title="pop in order comes again, however many messages were under way",
    ),
    Script(
        "broker",
        replace(NOW.but(maxMsgNums="32", invisibleTime="1500"), keep="first"),
        before=(*GROUP_AND_THREE, SEND_V2.but(i=PROPERTIES.replace("\x01a\x02", "\x01c\x02")), stored(4)),
        after=(
            NOW.but(exp="none of these"),
            replace(QUERY_OFFSET, until=lambda answer, _known: answer.get("ext", {}).get("offset") == "4"),
            ACK.but(offset="0", extraInfo=FIRST_RECEIPT + "0"),
            replace(ACK_BATCH, body=_acks(rq="{first[reviveQid]}", pt="{first[popTime]}", it=1500, b="Ag==")),
            CHANGE.but(offset="3", extraInfo=FIRST_RECEIPT + "3", invisibleTime="60000"),
            replace(stored(1), fields={"topic": RETRY_TOPIC, "queueId": "0", "committed": "true"}),
            NOW.but(maxMsgNums="32", queueId="0"),
            PEEK.but(queueId="-1"),
            NOW.but(maxMsgNums="32", queueId="0"),
            Ask(351, {"topic": RETRY_TOPIC}),
        ),
        title="pop brings back what was not acknowledged",
    ),
)
