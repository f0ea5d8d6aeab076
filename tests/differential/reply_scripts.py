"""What is asked about request and reply."""

from __future__ import annotations

from dataclasses import replace

from .broker_scripts import CREATE, HEARTBEAT, READ_BACK, SEND, SEND_V2
from .script import Pushed, Script

TO_NOBODY = "KEYS\x01{key}\x02REPLY_TO_CLIENT\x01{key}_nobody\x02CORRELATION_ID\x01{key}\x02"
TO_CLIENT = "KEYS\x01{key}\x02REPLY_TO_CLIENT\x01{client}\x02CORRELATION_ID\x01{key}\x02"
REPLY = replace(SEND.but(properties=TO_CLIENT), code=324)
REPLY_V2 = replace(SEND_V2.but(i=TO_CLIENT), code=325)
ASKER = replace(HEARTBEAT, peer="asker", body={**HEARTBEAT.body, "consumerDataSet": []})

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        REPLY,
        before=(CREATE, ASKER),
        after=READ_BACK,
        more={"to nobody": REPLY.but(properties=TO_NOBODY), "batch": REPLY.but(batch="true")},
        fresh=True,
    ),
    Script(
        "broker",
        REPLY_V2,
        before=(CREATE, ASKER),
        after=READ_BACK,
        more={"to nobody": REPLY_V2.but(i=TO_NOBODY), "queue beyond the last": REPLY_V2.but(e="99")},
        fresh=True,
    ),
    Script(
        "broker",
        REPLY_V2,
        title="broker pushes a reply to who asked",
        before=(CREATE, ASKER),
        after=(*READ_BACK, Pushed("asker")),
    ),
)
