"""Messages that wait for their delay level or their time."""

from __future__ import annotations

import base64
from typing import Final

from .entry import NOTHING, Difference, Entry
from .values import both, is_time, is_whole, variant

_WAITING_TOPICS: Final = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")


def _mark_in_record(one: Difference) -> bool:
    """A record that is larger by as much as the mark of its delivery takes."""
    number = int(one.where.split(".")[1])
    mark = one.comet_answer["body"][number]["properties"].get("__COMET_DELIVERED")
    return mark is not None and one.comet - one.java == len("__COMET_DELIVERED") + 1 + len(mark) + 1


def _same_recall_handle(one: Difference) -> bool:
    """Two handles that differ in the time of delivery only."""
    if NOTHING in (one.java, one.comet):
        return False
    java, comet = (base64.urlsafe_b64decode(text).decode().split(" ") for text in (one.java, one.comet))
    return java[:3] + java[4:] == comet[:3] + comet[4:] and is_time(java[3]) and is_time(comet[3])


ENTRIES: Final = (
    Entry(
        title="Deliveries carry a mark",
        kind="difference",
        why="A message that waited (for its delay level or its time) has one property more when it is delivered: the "
        "record it was made from. So a broker that was killed knows what it delivered; the original delivers again.",
        where="body.*.properties.__COMET_DELIVERED",
        when=lambda one: one.java is NOTHING,
    ),
    Entry(
        title="Size of a delivery's mark",
        kind="difference",
        why="The same, in the size of the stored message.",
        where="body.*.size",
        when=_mark_in_record,
    ),
    Entry(
        title="Times of messages that wait",
        kind="mask",
        why="When they go to wait, and until when, differs between any two runs. CometMQ delivers at the millisecond "
        "asked for, to within a twentieth of `timerPrecisionMs`; the original at the end of the tick.",
        where="body.*.properties.TIMER_*",
        when=both(is_time),
    ),
    Entry(
        title="Places in the queue of messages that wait for their time",
        kind="mask",
        why="All of them share one queue, also what the broker itself lets wait, like the checkpoints of pop.",
        where="ext.queueOffset",
        when=lambda one: (
            both(is_whole)(one)
            and ("recallHandle" in one.java_answer["ext"] or variant("to a retry topic / asked")(one))
        ),
    ),
    Entry(
        title="Places of messages that wait",
        kind="mask",
        why="The same in the stored message.",
        where="body.*.queueOffset",
        when=lambda one: one.java_answer["body"][int(one.where.split(".")[1])]["topic"] in _WAITING_TOPICS,
    ),
    Entry(
        title="How many checkpoints of pop wait",
        kind="mask",
        why="Two servers write them at two times.",
        where="body.json.timingCount.rmq_sys_REVIVE_LOG_*.count",
        codes=frozenset({61}),
    ),
    Entry(
        title="Recall handles",
        kind="mask",
        why="They hold the time of delivery.",
        where="ext.recallHandle",
        when=_same_recall_handle,
    ),
    Entry(
        title="How far the timer is",
        kind="mask",
        why="GET_TIMER_CHECK_POINT answers with times and offsets of all that was sent so far.",
        where="body",
        codes=frozenset({60}),
        when=both(lambda value: isinstance(value, str)),
    ),
    Entry(
        title="Times of timer counts",
        kind="mask",
        why="Two servers count at two times.",
        where="body.json.timingCount.*.timeStamp",
        when=both(is_time),
    ),
)
