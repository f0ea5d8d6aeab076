"""What the brokers are asked about locks on queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .script import Ask, Pause, Script


def queue(number: int) -> dict[str, Any]:
    return {"brokerName": "broker-a", "queueId": number, "topic": "{topic}"}


def wanted(client: str, *numbers: int, only_this_broker: bool = False) -> dict[str, Any]:
    return {
        "clientId": "{client}" + client,
        "consumerGroup": "{group}",
        "mqSet": [queue(number) for number in numbers],
        "onlyThisBroker": only_this_broker,
    }


LOCK = Ask(41, body=wanted("one", 0, 1))
UNLOCK = Ask(42, body=wanted("one", 0, 1))


def lock(client: str, *numbers: int) -> Ask:
    return replace(LOCK, body=wanted(client, *numbers))


def unlock(client: str, *numbers: int) -> Ask:
    return replace(UNLOCK, body=wanted(client, *numbers))


SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        LOCK,
        after=(lock("two", 0, 1, 2),),
        fresh=True,
        more={
            "the same queue twice": lock("one", 0, 0),
            "no queues": lock("one"),
            "only this broker": replace(LOCK, body=wanted("one", 0, 1, only_this_broker=True)),
            "an empty object": replace(LOCK, body={}),
            "a list": replace(LOCK, body=[]),
            "null": replace(LOCK, body=b"null"),
        },
    ),
    Script(
        "broker",
        UNLOCK,
        before=(LOCK,),
        after=(lock("two", 0, 1, 2),),
        fresh=True,
        more={
            "by a stranger": unlock("two", 0, 1),
            "what is not locked": unlock("one", 2),
            "only this broker": replace(UNLOCK, body=wanted("one", 0, 1, only_this_broker=True)),
        },
    ),
    Script(
        "broker",
        lock("one", 0, 1),
        after=(
            lock("two", 1, 2),
            lock("one", 0, 1, 2),
            unlock("two", 1),
            lock("two", 1),
            unlock("one", 1),
            lock("two", 1),
            lock("one", 1),
        ),
        title="a queue passes from one client to another",
    ),
    Script(
        "broker",
        lock("one", 0, 1),
        after=(
            lock("two", 0, 1),
            Pause(1.3),
            lock("one", 0),
            Pause(1.0),  # two seconds are over for the one, and not for the other
            lock("two", 0, 1),
            Pause(1.2),
            lock("two", 0, 1),
            lock("one", 0, 1),
        ),
        title="locks that are not renewed expire",
    ),
)
