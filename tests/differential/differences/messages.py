"""Messages as they are stored and delivered: ids, places, times, addresses."""

from __future__ import annotations

from typing import Final

from .entry import Difference, Entry
from .values import both, is_address, is_made_up_id, is_message_id, is_time, is_whole


def _made_up_id_in_record(one: Difference) -> bool:
    """A record that is larger by as much as its made-up id is longer."""
    number = int(one.where.split(".")[1])
    java, comet = one.java_answer["body"][number], one.comet_answer["body"][number]
    ids = [record["properties"].get("UNIQ_KEY", "") for record in (java, comet)]
    return all(map(is_made_up_id, ids)) and one.java - one.comet == len(ids[0]) - len(ids[1])


ENTRIES: Final = (
    Entry(
        title="Ids that the broker makes up",
        kind="mask",
        why="A message that came without a unique key gets one, made of address, process and time.",
        where="ext.transactionId",
        when=both(is_made_up_id),
    ),
    Entry(
        title="Ids that the broker makes up, stored",
        kind="mask",
        why="The same in the stored message.",
        where="body.*.properties.UNIQ_KEY",
        when=both(is_made_up_id),
    ),
    Entry(
        title="Length of ids that the broker makes up",
        kind="mask",
        why="32 characters with an IPv4 address, 56 with IPv6: the address the original finds depends on the machine.",
        where="body.*.size",
        when=_made_up_id_in_record,
    ),
    Entry(
        title="Message ids",
        kind="mask",
        why="They hold the port of the broker and the place in its log.",
        where="ext.msgId",
        when=both(is_message_id),
    ),
    Entry(
        title="Message ids in messages that were sent back",
        kind="mask",
        why="They hold the port of the broker and the place in its log.",
        where="body.*.properties.ORIGIN_MESSAGE_ID",
        when=both(is_message_id),
    ),
    Entry(
        title="Times in messages",
        kind="mask",
        why="Two servers store at two times.",
        where="body.*Time",
        when=both(is_time),
    ),
    Entry(
        title="Times in fields",
        kind="mask",
        why="Two servers store at two times.",
        where="ext.*imestamp",
        when=both(is_time),
    ),
    Entry(
        title="Addresses in messages",
        kind="mask",
        why="Each server and each connection has its own port.",
        where="body.*Host",
        when=both(is_address),
    ),
    Entry(
        "Times and addresses of a pushed message",
        "mask",
        "When and from where it came differs between any two runs, and so does where it is in the log.",
        "pushed.*",
        when=lambda one: (
            both(is_time)(one)
            or both(is_address)(one)
            or (both(is_whole)(one) and one.where.endswith("physicalOffset"))
        ),
    ),
    Entry(
        title="Places in the log",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="body.*physicalOffset",
        when=both(is_whole),
    ),
    Entry(
        title="Places in the log that the index knows",
        kind="mask",
        why="They depend on everything else that the broker has stored.",
        where="ext.indexLastUpdatePhyoffset",
        when=both(is_whole),
    ),
)
