"""What is asked about messages for any time, and about calling them back."""

from __future__ import annotations

import base64

from .broker_scripts import CREATE, PROPERTIES, PULL, QUERY, READ_BACK, SEND, SEND_V2, stored
from .script import Ask, Script

TIMER = "rmq_sys_wheel_timer"
LAST = READ_BACK[:2]  # when the last message is visible, all are
WAITING = QUERY.but(topic=TIMER)
FIXED = "timed_fixed"
CREATE_FIXED = CREATE.but(topic=FIXED)


def timed(**times: object) -> Ask:
    return SEND_V2.but(i=PROPERTIES + "".join(f"{key}\x01{value}\x02" for key, value in times.items()))


def handle(*words: object) -> str:
    return base64.urlsafe_b64encode(" ".join(map(str, words)).encode()).decode()


def fixed(*words: object) -> Ask:
    return RECALL.but(topic=FIXED, recallHandle=handle(*words))


RECALL = Ask(370, {"producerGroup": "{group}", "topic": "{topic}", "recallHandle": "{sent[recallHandle]}"})
AFTERWARDS = SEND_V2.but(i="KEYS\x01after\x02UNIQ_KEY\x01{key}_after\x02TIMER_DELAY_MS\x012500\x02")
FAR = 4_000_000_000_000

SCRIPTS: tuple[Script, ...] = (
    Script("broker", Ask(60), before=(CREATE, timed(TIMER_DELAY_MS=100), stored(1))),
    Script("broker", Ask(61), before=(CREATE, timed(TIMER_DELAY_MS=100), stored(1))),
    Script(
        "broker",
        RECALL,
        before=(CREATE, CREATE_FIXED, timed(TIMER_DELAY_SEC=3_600)),
        after=(*LAST, WAITING),
        more={
            "no handle at all": RECALL.but(recallHandle=""),
            "no base64": RECALL.but(recallHandle="&&&"),
            "cut base64": RECALL.but(recallHandle="djEgd"),
            "too much padding": RECALL.but(recallHandle="djEg==="),
            "other base64": RECALL.but(recallHandle="dj+/"),
            "no version": fixed(FIXED, "broker-a", FAR, "id", "x"),
            "too few words": fixed("v1", FIXED, "broker-a", FAR),
            "more words": fixed("v1", FIXED, "broker-a", FAR, "id", "more"),
            "another topic": RECALL.but(recallHandle=handle("v1", FIXED, "broker-a", FAR, "id")),
            "another broker": fixed("v1", FIXED, "broker-b", FAR, "id"),
            "too far": fixed("v1", FIXED, "broker-a", FAR, "id"),
            "past": fixed("v1", FIXED, "broker-a", 1_700_000_000_000, "id"),
            "no time": fixed("v1", FIXED, "broker-a", "soon", "id"),
            "spaces": RECALL.but(recallHandle=handle(" ", " ")),
        },
        fresh=True,
    ),
    Script(
        "broker",
        RECALL,
        title="broker recalls a message",
        before=(CREATE, timed(TIMER_DELAY_MS=1_900)),
        after=(AFTERWARDS, stored(1), PULL, WAITING),
        more={"twice": RECALL},
    ),
    Script(
        "broker",
        timed(TIMER_DELAY_SEC=1),
        title="broker a time of each kind",
        before=(CREATE,),
        after=(stored(1), PULL, *LAST, WAITING),
        more={
            "delay ms": timed(TIMER_DELAY_MS=1),
            "deliver ms": timed(TIMER_DELIVER_MS="{soon}"),
            "the first counts": timed(TIMER_DELIVER_MS="{tomorrow}", TIMER_DELAY_MS=3_600_000, TIMER_DELAY_SEC="+1"),
            "committed": timed(TIMER_DELAY_MS=700).but(f="8"),
            "older header": SEND.but(properties=f"{PROPERTIES}TIMER_DELAY_MS\x01700\x02"),
        },
        fresh=True,
    ),
    Script(
        "broker",
        timed(TIMER_DELAY_SEC=259_199),
        title="broker odd times that are waited for",
        before=(CREATE,),
        after=(*LAST, PULL, WAITING),
        more={
            "the maximum": timed(TIMER_DELAY_SEC=259_200),
            "the maximum in ms": timed(TIMER_DELAY_MS=259_200_000),
            "with level 0": timed(TIMER_DELAY_SEC=3_600, DELAY=0),
            "a recall of one's own": timed(TIMER_DELAY_SEC=3_600, TIMER_DEL_UNIQKEY="{key}"),
            "to a retry topic": timed(TIMER_DELAY_SEC=3_600).but(b="%RETRY%{group}", e="0"),
        },
        fresh=True,
    ),
    Script(
        "broker",
        timed(TIMER_DELAY_SEC=0),
        title="broker odd times that are not",
        before=(CREATE,),
        after=(*LAST, PULL),
        more={
            "over the maximum": timed(TIMER_DELAY_SEC=259_201),
            "over the maximum in ms": timed(TIMER_DELAY_MS=259_201_000),
            "far over the maximum": timed(TIMER_DELIVER_MS=FAR),
            "negative": timed(TIMER_DELAY_MS=-5),
            "past": timed(TIMER_DELIVER_MS="{now}"),
            "no number": timed(TIMER_DELAY_SEC="soon"),
            "fraction": timed(TIMER_DELAY_MS="1.5"),
            "blank": timed(TIMER_DELIVER_MS=" "),
            "too long a number": timed(TIMER_DELAY_MS=1 << 63),
            "overflow": timed(TIMER_DELAY_SEC=(1 << 63) - 1),
            "with a level": timed(TIMER_DELAY_SEC=3_600, DELAY=6),
            "prepared": timed(TIMER_DELAY_SEC=3_600).but(f="4"),
            "on its way already": timed(TIMER_DELAY_SEC=3_600, TIMER_OUT_MS=1),
            "a recall in the past": timed(TIMER_DELAY_SEC=0, TIMER_DEL_UNIQKEY="{key}"),
        },
        fresh=True,
    ),
)
