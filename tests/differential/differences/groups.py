"""Consumer groups: membership, locks, filters, what is sent back."""

from __future__ import annotations

from typing import Final

from .entry import Entry
from .values import both, is_readable_time, is_time, is_whole, variant

ENTRIES: Final = (
    Entry(
        title="Heartbeats are taken whole or not at all",
        kind="difference",
        why="Of a heartbeat that is refused (no client id, a producer group without a name) the original keeps the "
        "consumers it read first.",
        where="code",
        codes=frozenset({34}),
        when=variant(r"missing body\.(clientID|producerDataSet\.0\.groupName) / after"),
    ),
    Entry(
        title="Locks of nobody",
        kind="difference",
        why="LOCK_BATCH_MQ without a client id is refused by both; the original keeps a lock without a holder, and "
        "nobody can lock that queue again.",
        where="code",
        codes=frozenset({41}),
        when=variant(r"missing body\.clientId / after"),
    ),
    Entry(
        title="Pulls ahead of their heartbeat",
        kind="difference",
        why="A pull that knows newer tags than the group's last heartbeat is served unfiltered, and the client picks "
        "what it wants, as it always does. The original answers code 25 until the next heartbeat, which can take 30 s.",
        where="code",
        codes=frozenset({11, 361}),
        when=lambda one: one.java.startswith("25 ") and one.comet.startswith("0 "),
    ),
    Entry(
        title="Wrong filters are refused",
        kind="difference",
        why="A pull that brings a filter that cannot be read gets code 23 and the place of the fault. The original "
        "delivers every message to it.",
        where="code",
        codes=frozenset({11, 361}),
        when=lambda one: one.java.startswith("0 ") and one.comet.startswith("23 the "),
    ),
    Entry(
        title="Filters have a maximum",
        kind="difference",
        why="A SQL92 filter has at most 32,768 characters, 4,096 parts and 128 levels of nesting (code 23), so that "
        "what one message costs is bounded. The original takes what its stack takes.",
        where="code",
        codes=frozenset({46}),
        when=lambda one: one.java == "0" and one.comet.endswith("write it flatter"),
    ),
    Entry(
        title="Topics that stay forbidden",
        kind="difference",
        why="Allowing a group to read a topic allows it that topic. The original forgets all topics that the group is "
        "forbidden to read.",
        where="body.json.readable",
        codes=frozenset({353}),
        when=lambda one: (one.java, one.comet) == (True, False),
    ),
    Entry(
        title="What waits is not sent back",
        kind="difference",
        why="Half messages and delayed ones that wait in the broker's own topics belong to no consumer: none can "
        "send them back. The original hands them out by way of the retry topic.",
        where="code",
        codes=frozenset({36}),
        when=lambda one: str(one.java).startswith("0") and "belongs to the broker" in str(one.comet_answer["remark"]),
    ),
    Entry(
        title="Refused send-backs leave nothing behind",
        kind="difference",
        why="A message that cannot be sent back makes no retry topic. The original makes it before it looks for the "
        "message.",
        where="code",
        codes=frozenset({36}),
        when=lambda one: one.variant.endswith(" 351") and (str(one.java)[:2], str(one.comet)[:2]) == ("0", "17"),
    ),
    Entry(
        title="Times of consumption",
        kind="mask",
        why="When messages were stored, and how long the next one has waited.",
        where="body.json.consumeTimeSpanSet.*",
        codes=frozenset({303}),
        when=lambda one: (
            both(is_time)(one)
            or both(is_readable_time)(one)
            or (one.where.endswith("delayTime") and both(is_whole)(one))
        ),
    ),
    Entry(
        title="Places in the log that a queue knows",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="body.json.queueData.*physicOffset",
        codes=frozenset({321}),
        when=both(is_whole),
    ),
)
