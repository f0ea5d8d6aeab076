"""What operators ask about consumption: who consumes a topic, how far and how late, and what a queue's units hold."""

from __future__ import annotations

from .broker_scripts import CREATE, CREATE_GROUP, HEARTBEAT, SEND_V2, UPDATE_OFFSET, stored
from .script import Ask, Script

WHO = Ask(300, {"topic": "{topic}"})
TIME_SPAN = Ask(303, {"topic": "{topic}", "group": "{group}"})
UNITS = Ask(321, {"topic": "{topic}", "queueId": "1", "index": "0", "count": "2", "consumerGroup": "{group}"})
BEFORE = (CREATE, CREATE_GROUP, SEND_V2, SEND_V2, stored(2))

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        WHO,
        before=(*BEFORE, HEARTBEAT, UPDATE_OFFSET),
        more={"nobody": WHO.but(topic="{topic}_unknown")},
    ),
    Script(
        "broker",
        WHO,
        title="broker names groups that have committed and are gone",
        before=(*BEFORE, UPDATE_OFFSET),
    ),
    Script(
        "broker",
        TIME_SPAN,
        before=(*BEFORE, UPDATE_OFFSET.but(commitOffset="1")),
        more={"of a group without offsets": TIME_SPAN.but(group="{group}_other")},
    ),
    Script(
        "broker",
        TIME_SPAN,
        title="broker says how late a group is that has consumed everything",
        before=(*BEFORE, UPDATE_OFFSET),
    ),
    Script(
        "broker",
        UNITS,
        before=BEFORE,
        more={
            "one": UNITS.but(count="1"),
            "none": UNITS.but(count="0"),
            "less than none": UNITS.but(count="-1"),
            "before the first": UNITS.but(index="-1"),
            "behind the last": UNITS.but(index="2"),
            "far behind the last": UNITS.but(index="4000000000"),
            "of a queue without messages": UNITS.but(queueId="0"),
            "of no queue": UNITS.but(queueId="-1"),
            "for nobody": UNITS.but(consumerGroup=""),
        },
    ),
    Script(
        "broker",
        UNITS,
        title="broker shows units and who wants them",
        before=(*BEFORE, HEARTBEAT),
    ),
)
