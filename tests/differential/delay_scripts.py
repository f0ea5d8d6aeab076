"""What is asked about delay levels, messages sent back, and dead letters; the first levels of both are short."""

from __future__ import annotations

from dataclasses import replace

from .broker_scripts import (
    CREATE,
    CREATE_GROUP,
    GROUP,
    MAX_OFFSET,
    PROPERTIES,
    PULL,
    QUERY,
    READ_BACK,
    SEND,
    SEND_V2,
    TOPIC_CONFIG,
    stored,
)
from .locks_scripts import LOCK
from .namesrv_scripts import code_is
from .script import Ask, Script

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
RETRY, DEAD = "%RETRY%{group}", "%DLQ%{group}"
LAST = READ_BACK[:2]  # when the last message is visible, all are


def delayed(level: object) -> Ask:
    return SEND_V2.but(i=f"{PROPERTIES}DELAY\x01{level}\x02")


BACK = Ask(
    36,
    {
        "offset": "{sent[physical]}",
        "group": "{group}",
        "delayLevel": "0",
        "originMsgId": "{sent[msgId]}",
        "originTopic": "{topic}",
        "unitMode": "false",
        "maxReconsumeTimes": "2",
    },
)
WAITING = replace(QUERY.but(topic=SCHEDULE), until=None)
BURIED = replace(QUERY.but(topic=DEAD), until=None)
PULL_RETRY = replace(PULL.but(topic=RETRY, queueId="0"), until=code_is(0), keep="sent")
PULL_DEAD = replace(PULL.but(topic=DEAD, queueId="0"), until=code_is(0))
LEVELS = Ask(45)
ALL_DELAYED = replace(MAX_OFFSET.but(topic=SCHEDULE, queueId="0"), keep="delayed")
RETRY_CONFIG, DEAD_CONFIG = TOPIC_CONFIG.but(topic=RETRY), TOPIC_CONFIG.but(topic=DEAD)
SEEN = (*LAST, WAITING, BURIED, RETRY_CONFIG, DEAD_CONFIG)
SEND_RETRY = SEND_V2.but(b=RETRY, e="0")

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        # The original counts a message some time after it has delivered it.
        replace(
            LEVELS,
            until=lambda answer, known: (
                answer["body"]["json"]["offsetTable"].get("1") == int(known["delayed"]["offset"])
            ),
        ),
        before=(CREATE, delayed(1), stored(1), ALL_DELAYED),
    ),
    Script(
        "broker",
        BACK,
        before=(CREATE, SEND_V2),
        after=SEEN,
        more={
            "a level": BACK.but(delayLevel="2"),
            "a level beyond the last": BACK.but(delayLevel="99"),
            "give up": BACK.but(delayLevel="-1"),
            "no more tries": BACK.but(maxReconsumeTimes="0"),
            "fewer tries": BACK.but(maxReconsumeTimes="-1"),
            "an old client": replace(BACK.but(maxReconsumeTimes="0"), version=120),
            "the first that may": replace(BACK.but(maxReconsumeTimes="0"), version=121),
            "unit mode": BACK.but(unitMode="true"),
            "nothing there": BACK.but(offset="999999999999"),
            "within a message": BACK.but(offset="7"),
            "negative": BACK.but(offset="-1"),
            "bad group": BACK.but(group="{group}/../x"),
            "long group": BACK.but(group="{group}" + "x" * 200),
        },
        fresh=True,
    ),
    Script(
        "broker",
        BACK,
        title="broker a group without retries",
        before=(CREATE, SEND_V2, replace(CREATE_GROUP, body={**GROUP, "retryQueueNums": 0})),
        after=SEEN,
    ),
    Script(
        "broker",
        BACK,
        title="broker a retry topic that may not be written",
        before=(CREATE, SEND_V2, CREATE.but(topic=RETRY, perm="4")),
        after=SEEN,
    ),
    Script("broker", BACK, title="broker a waiting message sent back", before=(CREATE, delayed(6))),
    Script(
        "broker",
        replace(BACK, fields={k: v for k, v in BACK.fields.items() if k != "maxReconsumeTimes"}),
        title="broker the tries of a group",
        before=(CREATE, SEND_V2, replace(CREATE_GROUP, body={**GROUP, "retryMaxTimes": 0})),
        after=SEEN,
    ),
    Script(
        "broker",
        BACK,
        title="broker back three times and dead",
        before=(CREATE, SEND_V2, BACK, PULL_RETRY, BACK, replace(PULL_RETRY.but(queueOffset="1"))),
        after=(PULL_DEAD, WAITING, RETRY_CONFIG, DEAD_CONFIG),
    ),
    Script(
        "broker", delayed(2), title="broker delays a message", before=(CREATE,), after=(stored(1), PULL, *LAST, WAITING)
    ),
    Script(
        "broker",
        delayed(99),
        title="broker odd delay levels",
        before=(CREATE,),
        after=(*LAST, PULL, WAITING),
        more={
            "none": delayed(0),
            "negative": delayed(-1),
            "least": delayed(-(1 << 31)),
            "signed": delayed("+6"),
            "no number": delayed("soon"),
            "fraction": delayed("1.5"),
            "blank": delayed(" "),
            "overflow": delayed(1 << 31),
            "prepared": delayed(6).but(f="4"),
            "rolled back": delayed(6).but(f="12"),
            "committed": delayed(6).but(f="8"),
            "older header": SEND.but(properties=f"{PROPERTIES}DELAY\x016\x02"),
        },
        fresh=True,
    ),
    Script(
        "broker",
        SEND_RETRY,
        title="broker a client sends to a retry topic",
        before=(CREATE,),
        after=(*LAST, replace(PULL.but(topic=RETRY, queueId="0")), BURIED, RETRY_CONFIG, DEAD_CONFIG),
        more={
            "tried often": SEND_RETRY.but(j="3"),
            "tried too often": SEND_RETRY.but(j="4"),
            "by an old client": replace(SEND_RETRY.but(j="4"), version=120),
            "by the group's maximum": replace(SEND_RETRY.but(j="17"), version=120),
            "with a level": SEND_RETRY.but(j="4", i=f"{PROPERTIES}DELAY\x016\x02"),
            "with a level, alive": SEND_RETRY.but(j="1", i=f"{PROPERTIES}DELAY\x016\x02"),
            "bad group": SEND_RETRY.but(b="%RETRY%"),
            "of pop": SEND_RETRY.but(b="%RETRY%{group}+{topic}", j="4"),
            "queue beyond the last": SEND_RETRY.but(e="9"),
        },
        fresh=True,
    ),
    Script(
        "broker",
        SEND_RETRY,
        title="broker a retry of a group that consumes in order",
        before=(CREATE, LOCK),
        after=(*LAST, BURIED, DEAD_CONFIG),
    ),
)
