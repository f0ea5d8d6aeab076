"""What operators ask of consumers through the broker; the consumer of these scripts answers everything with success."""

from __future__ import annotations

from dataclasses import replace

from .broker_scripts import CREATE, CREATE_GROUP, HEARTBEAT, SEND
from .script import Ask, Pushed, Script

MEMBER = replace(HEARTBEAT, peer="member")
RUNNING_INFO = Ask(307, {"consumerGroup": "{group}", "clientId": "{client}", "jstackEnable": "true"})
CONSUME_DIRECTLY = Ask(
    309,
    {
        "consumerGroup": "{group}",
        "clientId": "{client}",
        "msgId": "{sent[msgId]}",
        "brokerName": "whatever",
        "topic": "{topic}",
        "topicSysFlag": "7",
        "groupSysFlag": "7",
    },
)
BEFORE = (CREATE, CREATE_GROUP, MEMBER)
SENT = replace(SEND, keep="sent")

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        RUNNING_INFO,
        before=BEFORE,
        more={"of somebody else": RUNNING_INFO.but(clientId="nobody")},
    ),
    Script(
        "broker", RUNNING_INFO, title="broker asks a consumer how it runs", before=BEFORE, after=(Pushed("member"),)
    ),
    Script(
        "broker",
        CONSUME_DIRECTLY,
        before=(*BEFORE, SENT),
        more={
            "of somebody else": CONSUME_DIRECTLY.but(clientId="nobody"),
            "a message that is not there": CONSUME_DIRECTLY.but(msgId="7F00000100002A9F0000000000FFFFFF"),
            "half an id": CONSUME_DIRECTLY.but(msgId="7F000001"),
        },
    ),
    Script(
        "broker",
        CONSUME_DIRECTLY,
        title="broker gives a consumer a message at once",
        before=(*BEFORE, SENT),
        after=(Pushed("member"),),
    ),
)
