"""Queues of batches (`queue.type=BatchCQ`)."""

from __future__ import annotations

from typing import Final

from .entry import Entry
from .values import variant

ENTRIES: Final = (
    Entry(
        title="Times in an empty queue of batches",
        kind="difference",
        why="In a queue of a topic of `queue.type=BatchCQ` to which nothing was sent yet, a time is answered as in any "
        "empty queue (offset 0, earliest time -1). The original fails (code 1).",
        where="code",
        codes=frozenset({29}),
        when=variant("(earliest )?in an empty queue / asked"),
    ),
    Entry(
        title="Cleaning queues beside an empty queue of batches",
        kind="difference",
        why="CLEAN_EXPIRED_CONSUMEQUEUE passes it over. The original fails (code 1).",
        where="code",
        codes=frozenset({306}),
        when=lambda one: "mappedFile" in (one.java_answer["remark"] or ""),
    ),
)
