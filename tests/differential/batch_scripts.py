"""Scenes with a topic of `queue.type=BatchCQ`: what may be sent, what pulls get, where its queues begin and end."""

from __future__ import annotations

import struct
from dataclasses import replace

from .broker_scripts import (
    BATCH,
    CREATE,
    CREATE_GROUP,
    LARGE,
    MAX_OFFSET,
    PULL,
    QUERY,
    QUERY_OFFSET,
    READ_BACK,
    SEND,
    SEND_BATCH,
    SEND_V2,
    TOPIC_CONFIG,
    VIEW,
    stored,
    sub_record,
)
from .script import Ask, Script

CREATE_BATCHES = CREATE.but(attributes="+queue.type=BatchCQ")
KEYED = "UNIQ_KEY\x01{key}_unique\x02KEYS\x01{key}\x02WAIT\x01true\x02"
SEND_INNER = SEND_BATCH.but(i=KEYED)
PACKED = SEND_V2.but(f="128", i="UNIQ_KEY\x01{key}_unique\x02INNER_NUM\x012\x02")
MIN_OFFSET = Ask(31, {"topic": "{topic}", "queueId": "1"})
SEARCH = Ask(29, {"topic": "{topic}", "queueId": "1", "timestamp": "0"})
EARLIEST = Ask(32, {"topic": "{topic}", "queueId": "1"})

FULL = (
    CREATE_GROUP,
    CREATE_BATCHES,
    SEND_INNER,
    replace(SEND_V2.but(i="TAGS\x01a\x02UNIQ_KEY\x01alone\x02"), body=b"alone"),
    SEND_INNER.but(i=KEYED + "TAGS\x01b\x02"),
    SEND_INNER,
    stored(10),
)


def _sized(*sizes: int) -> bytes:
    return b"".join(struct.pack(">i", size).ljust(max(size, 4), b"x") for size in sizes)


def _bodies() -> dict[str, bytes | None]:
    return {
        "empty": None,
        "three bytes": b"abc",
        "size too large": _sized(30)[:-1],
        "size negative": struct.pack(">i", -5) + bytes(30),
        "sizes alone": _sized(4, 8),
        "cut short": BATCH[:-3],
        "too large": sub_record(bytes(LARGE), b""),
        "too many": struct.pack(">i", 4) * 33_000,
        "one message": sub_record(b"alone", b""),
    }


SENDS = {
    **{f"body {name}": replace(SEND_INNER, body=body) for name, body in _bodies().items()},
    "without a unique key": SEND_BATCH,
    "with a number of its own": SEND_INNER.but(i=KEYED + "INNER_NUM\x019\x02"),
    "with a base of its own": SEND_INNER.but(i=KEYED + "INNER_BASE\x0199\x02"),
    "prepared": SEND_INNER.but(f="4"),
    "committed": SEND_INNER.but(f="8"),
    "compressed": SEND_INNER.but(f="1"),
    "properties too large": SEND_INNER.but(i=KEYED + "LONG\x01" + "x" * 32_768 + "\x02"),
    "delayed": SEND_INNER.but(i=KEYED + "DELAY\x013\x02"),
    "queue out of range": SEND_INNER.but(e="9"),
    "one message, V1": SEND,
    "one message, V2": SEND_V2,
    "packed": PACKED,
    "packed, no number": PACKED.but(i="UNIQ_KEY\x01{key}\x02"),
    "packed, number 0": PACKED.but(i="UNIQ_KEY\x01{key}\x02INNER_NUM\x010\x02"),
    "packed, number negative": PACKED.but(i="UNIQ_KEY\x01{key}\x02INNER_NUM\x01-3\x02"),
    "packed, number of letters": PACKED.but(i="UNIQ_KEY\x01{key}\x02INNER_NUM\x01abc\x02"),
    "packed, a base of its own": PACKED.but(i="UNIQ_KEY\x01{key}\x02INNER_NUM\x012\x02INNER_BASE\x0177\x02"),
    "number without the flag": PACKED.but(f="0"),
    "base without the flag": PACKED.but(f="0", i="UNIQ_KEY\x01{key}\x02INNER_BASE\x0177\x02"),
}

SCRIPTS: tuple[Script, ...] = (
    Script(
        "broker",
        SEND_INNER,
        before=(CREATE_BATCHES,),
        after=(*READ_BACK, MAX_OFFSET, MIN_OFFSET, SEND_INNER, SEND_V2),
        fresh=True,
        more=SENDS,
        title="sends to a topic of batches",
    ),
    Script(
        "broker",
        PACKED,
        before=(CREATE,),
        after=READ_BACK,
        fresh=True,
        more={
            "flag alone": PACKED.but(i="UNIQ_KEY\x01{key}\x02"),
            "number alone": PACKED.but(f="0"),
            "base alone": PACKED.but(f="0", i="UNIQ_KEY\x01{key}\x02INNER_BASE\x0177\x02"),
            "unwrap": PACKED.but(f="64", i="UNIQ_KEY\x01{key}\x02"),
            "batch with the flag": SEND_INNER.but(f="128"),
            "batch with a number": SEND_INNER.but(i=KEYED + "INNER_NUM\x012\x02"),
            "batch with a key": SEND_INNER,
        },
        title="inner batches to a plain topic",
    ),
    Script(
        "broker",
        PULL,
        before=FULL,
        more={
            **{
                f"from {offset}, {count} messages": PULL.but(queueOffset=str(offset), maxMsgNums=str(count))
                for offset in (0, 1, 2, 3, 4, 6, 7, 9)
                for count in (0, 1, 4, 7, 32, 1000)
            },
            **{f"from {offset}": PULL.but(queueOffset=str(offset)) for offset in (-1, 10, 11, 77)},
            "tag a": PULL.but(subscription="a"),
            "tag b": PULL.but(subscription="b"),
            "tag c": PULL.but(subscription="c"),
            "few bytes": PULL.but(maxMsgBytes="100"),
            "empty queue": PULL.but(queueId="0"),
            "empty queue, beyond": PULL.but(queueId="0", queueOffset="5"),
        },
        title="pulls from a topic of batches",
    ),
    Script(
        "broker",
        SEARCH,
        before=FULL,
        after=(QUERY_OFFSET.but(setZeroIfNotFound="true"), QUERY, VIEW),
        more={
            "first": MIN_OFFSET,
            "end": MAX_OFFSET,
            "empty queue": MIN_OFFSET.but(queueId="0"),
            "empty queue, end": MAX_OFFSET.but(queueId="0"),
            "at the end": SEARCH.but(timestamp="9999999999999"),
            "at the end, upper": SEARCH.but(timestamp="9999999999999", boundaryType="UPPER"),
            "in an empty queue": SEARCH.but(queueId="0"),
            "earliest": EARLIEST,
            "earliest in an empty queue": EARLIEST.but(queueId="0"),
            "another type": CREATE.but(attributes="+queue.type=SimpleCQ"),
            "the type taken away": CREATE.but(attributes="-queue.type"),
            "unknown type": CREATE.but(topic="{topic}_other", attributes="+queue.type=batchcq"),
        },
        title="bounds of a topic of batches",
    ),
    Script(
        "broker",
        Ask(215, {"topic": "{topic}"}),
        before=FULL,
        after=(TOPIC_CONFIG, MAX_OFFSET, CREATE, SEND_INNER, *READ_BACK),
        title="a topic of batches made again as a plain one",
    ),
)
