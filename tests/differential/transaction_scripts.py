"""What is asked about transactions. Both brokers check after a second, every second, twice at most."""

from __future__ import annotations

from dataclasses import replace

from .broker_scripts import CREATE, HEARTBEAT, QUERY, READ_BACK, SEND_V2, stored
from .namesrv_scripts import code_is
from .script import Ask, Pushed, Script

TEXT = "TRAN_MSG\x01true\x02PGROUP\x01{group}_p\x02TAGS\x01a\x02KEYS\x01{key}\x02UNIQ_KEY\x01{key}_unique\x02"
HALF = SEND_V2.but(i=TEXT)
PLAIN = SEND_V2.but(i="PGROUP\x01{group}_p\x02")
IMMUNE = HALF.but(i=TEXT + "CHECK_IMMUNITY_TIME_IN_SECONDS\x012\x02", g="1000")
FORGED = SEND_V2.but(i="PGROUP\x01{group}_p\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x011\x02")
END = Ask(
    37,
    {
        "topic": "{topic}",
        "producerGroup": "{group}_p",
        "tranStateTableOffset": "{sent[queueOffset]}",
        "commitLogOffset": "{sent[physical]}",
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": "{key}_unique",
        "transactionId": "{key}_unique",
    },
)
ROLL_BACK = END.but(commitOrRollback="12")
RESUME = Ask(323, {"topic": "{topic}", "msgId": "{sent[msgId]}"})
PRODUCER = replace(HEARTBEAT, peer="producer", body={**HEARTBEAT.body, "consumerDataSet": []})
END_CHECKED = END.but(
    tranStateTableOffset="{check[tranStateTableOffset]}",
    commitLogOffset="{check[commitLogOffset]}",
    fromTransactionCheck="true",
)
GIVEN_UP = replace(QUERY.but(topic="TRANS_CHECK_MAX_TIME_TOPIC"), until=code_is(0))

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        END,
        before=(CREATE, HALF),
        after=READ_BACK,
        more={
            "roll back": ROLL_BACK,
            "undecided": END.but(commitOrRollback="0"),
            "no verdict": END.but(commitOrRollback="4"),
            "another group": END.but(producerGroup="others"),
            "another queue offset": END.but(tranStateTableOffset="999999"),
            "nothing there": END.but(commitLogOffset="999999999999"),
            "within a message": END.but(commitLogOffset="7"),
            "negative": END.but(commitLogOffset="-1"),
        },
        fresh=True,
    ),
    Script("broker", RESUME, before=(CREATE, HALF), fresh=True, more={"no id": RESUME.but(msgId="no id")}),
    Script("broker", RESUME, title="broker resumes a plain message", before=(CREATE, PLAIN)),
    Script("broker", END, title="broker ends twice: commit", before=(CREATE, HALF, END), after=READ_BACK),
    Script(
        "broker", ROLL_BACK, title="broker ends twice: another verdict", before=(CREATE, HALF, END), after=READ_BACK
    ),
    Script("broker", END, title="broker ends twice: too late", before=(CREATE, HALF, ROLL_BACK), after=READ_BACK),
    Script("broker", END, title="broker ends a plain message", before=(CREATE, SEND_V2), after=READ_BACK),
    Script("broker", END, title="broker ends a message of a group", before=(CREATE, PLAIN), after=READ_BACK),
    Script("broker", END, title="broker ends a forged half message", before=(CREATE, FORGED), after=READ_BACK),
    Script("broker", END, title="broker ends after immunity", before=(CREATE, IMMUNE), after=READ_BACK),
    Script(
        "broker",
        END_CHECKED,
        title="broker checks an open transaction",
        before=(CREATE, PRODUCER, HALF, Pushed("producer", keep="check")),
        after=(stored(1), *READ_BACK),
    ),
    Script(
        "broker",
        END,
        title="broker gives up a transaction",
        before=(CREATE, HALF, GIVEN_UP),
        after=READ_BACK,
    ),
)
