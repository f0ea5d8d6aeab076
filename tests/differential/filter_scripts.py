"""Filters, asked of brokers that allow SQL92: checked before subscribing, at a pull's own word, and as registered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .broker_scripts import (
    CHECK,
    CREATE,
    CREATE_GROUP,
    HEARTBEAT,
    PULL,
    SEND_V2,
    SUBSCRIPTION,
    SUBSCRIPTION_DATA,
    SUSPEND,
    stored,
)
from .pop_scripts import NOW
from .script import Ask, Await, Script

EXPRESSIONS = {
    "greater": "a > 5",
    "text for a number": "a > 5.5",
    "between": "a BETWEEN 1 AND 7",
    "in": "b IN ('x', 'y') AND a IS NOT NULL",
    "or of unknowns": "a > 100 OR absent = 'x' OR b = 'x'",
    "not unknown": "NOT absent = 'x'",
    "contains": "b CONTAINS 'e' OR b STARTSWITH 'x'",
    "equal absents": "absent = missing",
    "boolean text": "flag = TRUE",
    "error then true": "flag > 5 OR a = 7",
    "tags and keys": "TAGS = 'a' AND KEYS IS NOT NULL",
    "like": "b LIKE 'x'",
    "words behind": "a = 7 whatever ~~~",
    "nothing matches": "a = 1000",
}
WRONG = {
    "no end": "a >",
    "wrong character": "a = 1 ; b",
    "text in order": "a > 'x'",
    "zero with a point": "a > 0.0",
    "unbalanced": "(a = 1",
    "value alone": "5",
    "bounds": "a BETWEEN 5 AND 3",
    "too large": "a > 9223372036854775808",
}


def _properties(**values: str) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in values.items())


MESSAGES = (
    SEND_V2.but(i=_properties(KEYS="{key}", TAGS="a", a="7", b="x", flag="true")),
    SEND_V2.but(i=_properties(TAGS="b", a="3", b="green", flag="TRUE")),
    SEND_V2.but(i=_properties(a="5.5", b="y", flag="no")),
    SEND_V2.but(i=_properties(a="101", b="")),
    SEND_V2.but(i=_properties(b="x", KEYS="{key}")),
    stored(5),
)
BY_SQL = PULL.but(expressionType="SQL92", subscription="a > 5")


def check(expression: Any, expression_type: str = "SQL92") -> Ask:
    data = {**SUBSCRIPTION_DATA, "expressionType": expression_type, "subString": expression}
    return replace(CHECK, body={**CHECK.body, "subscriptionData": data})


def beat(expression: str, version: int, expression_type: str = "SQL92") -> Ask:
    data = {**SUBSCRIPTION_DATA, "expressionType": expression_type, "subString": expression, "subVersion": version}
    consumer = {**HEARTBEAT.body["consumerDataSet"][0], "subscriptionDataSet": [data]}
    return replace(HEARTBEAT, body={**HEARTBEAT.body, "consumerDataSet": [consumer]})


def registered(version: int) -> Ask:
    return PULL.but(sysFlag="0", subVersion=str(version), expressionType="SQL92")


SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        check("a > 5"),
        title="broker filters are checked",
        before=(CREATE,),
        more={
            **{name: check(text) for name, text in {**EXPRESSIONS, **WRONG}.items()},
            "unknown type": check("a > 5", "XPATH"),
            "nested too deep": check("(" * 200 + "a = 1" + ")" * 200),
            "empty": check(""),
            "null": check(None),
        },
    ),
    Script(
        "broker",
        BY_SQL,
        title="broker filters of a pull",
        before=(CREATE_GROUP, CREATE, *MESSAGES),
        more={
            **{name: BY_SQL.but(subscription=text) for name, text in EXPRESSIONS.items()},
            **{f"wrong filter, {name}": BY_SQL.but(subscription=text) for name, text in WRONG.items()},
            "wrong filter, unknown type": BY_SQL.but(expressionType="XPATH"),
            "empty": BY_SQL.but(subscription=""),
            "from the middle": BY_SQL.but(subscription="a > 5 OR a = 5.5", queueOffset="1"),
            "one": BY_SQL.but(subscription="b = 'x'", maxMsgNums="1"),
        },
    ),
    Script(
        "broker",
        NOW.but(expType="SQL92", exp="b = 'x'", maxMsgNums="32"),
        title="broker filters of a pop",
        before=(CREATE_GROUP, CREATE, *MESSAGES),
        fresh=True,
        more={
            "nothing matches": NOW.but(expType="SQL92", exp="a = 1000"),
            "wrong filter": NOW.but(expType="SQL92", exp="a >"),
            "unknown type": NOW.but(expType="XPATH", exp="a > 5"),
        },
        after=(NOW.but(maxMsgNums="32"),),
    ),
    Script(
        "broker",
        beat("a > 5", 10),
        title="broker filters of a group",
        before=(CREATE_GROUP, CREATE, *MESSAGES),
        after=(
            registered(10),
            registered(11),
            beat("a = 3", 10),  # not newer, so it does not count
            registered(10),
            beat("a = 3", 12),
            registered(12),
            beat("a >", 13),
            registered(13),
            registered(12),
            beat("b = 'x'", 14),
            registered(14),
            beat("a", 15, "TAG"),
            registered(15),
        ),
    ),
    Script(
        "broker",
        replace(
            BY_SQL.but(sysFlag=str(SUBSCRIPTION | SUSPEND), suspendTimeoutMillis="8000"),
            pending="pull",
        ),
        title="broker long polling wakes for a match",
        before=(CREATE_GROUP, CREATE),
        after=(
            SEND_V2.but(i=_properties(a="1")),
            SEND_V2.but(i=_properties(a="x")),
            SEND_V2.but(i=_properties(a="9")),
            Await("pull"),
        ),
    ),
)
