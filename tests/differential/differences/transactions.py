"""Transactions, and the extensions that end many of them."""

from __future__ import annotations

from typing import Final

from .entry import Difference, Entry
from .values import both, is_address, is_message_id, is_time, is_whole


def _one_more(one: Difference) -> bool:
    """Where the original has delivered one message more."""
    if one.where == "body":
        return len(one.java) == len(one.comet) + 1
    if one.where == "code":
        return str(one.java).startswith("0 ") and str(one.comet).startswith("19 ")
    return one.where in ("ext.maxOffset", "ext.nextBeginOffset") and int(one.java) == int(one.comet) + 1


ENTRIES: Final = (
    Entry(
        title="The first verdict on a transaction stands",
        kind="difference",
        why="END_TRANSACTION for a transaction that has ended is answered with success if it says the same again, also "
        "after a restart, and code 604 if not. Nothing is delivered twice, nor after a rollback, nor after it was "
        "given up. The original does what it is told each time.",
        where="code",
        codes=frozenset({37}),
        when=lambda one: one.java.startswith("0") and one.comet.startswith("604 The transaction is"),
    ),
    Entry(
        title="Only half messages are ended",
        kind="difference",
        why="END_TRANSACTION for a message of another topic is refused (code 1). The original delivers any message "
        "that has the properties of a half message.",
        where="code",
        codes=frozenset({37}),
        when=lambda one: one.java == "0" and one.comet.endswith("is not a half message"),
    ),
    Entry(
        title="Messages delivered by a second or forged END_TRANSACTION",
        kind="difference",
        why="There are none in CometMQ, as above.",
        where="*",
        codes=frozenset({37}),
        when=lambda one: one.variant.endswith("after 2 11") and _one_more(one),
    ),
    Entry(
        title="Extensions",
        kind="difference",
        why="GET_EXTENSIONS (30000) and END_TRANSACTIONS (30001) are CometMQ's own. The original refuses them as not "
        "supported (code 3), by which a client knows that they are not there.",
        where="code",
        codes=frozenset({30000, 30001}),
        when=lambda one: one.java.startswith("3 "),
    ),
    Entry(
        title="Only transactions are resumed",
        kind="difference",
        why="RESUME_CHECK_HALF_MESSAGE takes half messages and those of TRANS_CHECK_MAX_TIME_TOPIC, if they were not "
        "committed or rolled back. The original puts any message into the half topic.",
        where="code",
        codes=frozenset({323}),
        when=lambda one: one.java == "0" and "is neither a half message" in one.comet,
    ),
    Entry(
        title="Flags of checked transactions",
        kind="difference",
        why="A transaction keeps its flag when it is stored again for a check. The original sets it to 0.",
        where="body.0.flag",
        codes=frozenset({37}),
        when=lambda one: one.java == 0,
    ),
    Entry(
        title="Transactions that are given up say which they were",
        kind="difference",
        why="A message of TRANS_CHECK_MAX_TIME_TOPIC names the place of its half message, as prepared offset, and the "
        "offset of its first copy, in TRAN_PREPARED_QUEUE_OFFSET, so that none is given up or resumed twice. "
        "The original ignores both there.",
        where="body.0.*",
        codes=frozenset({37}),
        when=lambda one: (
            one.variant.endswith(" 12")
            and one.where.rpartition(".")[2] in ("preparedOffset", "TRAN_PREPARED_QUEUE_OFFSET", "size")
        ),
    ),
    Entry(
        title="Places in the queue of half messages",
        kind="mask",
        why="They depend on how often open transactions were checked before.",
        where="ext.queueOffset",
        codes=frozenset({37, 323}),
        when=both(is_whole),
    ),
    Entry(
        title="Places of half messages and of those given up",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="body.0.*Offset",
        codes=frozenset({37}),
        when=lambda one: one.where.endswith("preparedOffset") or one.variant.endswith(" 12"),
    ),
    Entry(
        title="Places and times of a half message that a producer is asked about",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="pushed.0.*",
        codes=frozenset({37}),
        when=lambda one: (
            both(is_address)(one)
            or both(is_time)(one)
            or both(is_message_id)(one)
            or (both(is_whole)(one) and one.where.endswith("Offset"))
        ),
    ),
)
