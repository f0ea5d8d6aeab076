"""What pop hands out."""

from __future__ import annotations

import re
from typing import Any, Final

from .entry import Difference, Entry
from .values import both, is_time, is_whole


def _is_receipt(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d+ \d{13} \d+ \d [012] broker-a \d+ \d+", value) is not None


def _of_a_pop(one: Difference) -> bool:
    if one.where == "ext.popTime":
        return both(is_time)(one)
    if one.where == "ext.reviveQid":
        return all(value in tuple("01234567") for value in (one.java, one.comet))
    return one.where == "ext.invisibleTime" and both(is_whole)(one) and abs(int(one.java) - int(one.comet)) < 5_000


def _blocked_for_ever(one: Difference) -> bool:
    is_held_back = one.java == "210 NO_MESSAGE_IN_QUEUE" and int(one.java_answer["ext"]["restNum"]) > 0
    return is_held_back and one.comet == "0 FOUND"


ENTRIES: Final = (
    Entry(
        title="Many messages popped in order and not acknowledged",
        kind="difference",
        why="With `enablePopMessageThreshold` the original counts them too, and nothing but acknowledgements makes the "
        "number smaller: a consumer that dies with too many of them blocks its queue for ever. Here the lock of the "
        "queue is the limit: it ends with the invisible time, and they come again.",
        where="code",
        codes=frozenset({200050}),
        when=_blocked_for_ever,
    ),
    Entry(
        title="Times and revive queues of pops",
        kind="mask",
        why="Two servers hand messages out at two times, and count from there how long an ordered message is held. "
        "Revive queues are taken in turn, whoever pops.",
        where="ext.*",
        when=_of_a_pop,
    ),
    Entry(
        title="Times of the first pop",
        kind="mask",
        why="Two servers hand messages out at two times.",
        where="body.*.properties.1ST_POP_TIME",
        when=both(is_time),
    ),
    Entry(
        title="Receipts",
        kind="mask",
        why="They hold the time of the pop and the number of its revive queue.",
        where="body.*.properties.POP_CK",
        when=both(_is_receipt),
    ),
)
