"""Between master and slave."""

from __future__ import annotations

from typing import Final

from .entry import Entry
from .values import both, is_whole

ENTRIES: Final = (
    Entry(
        title="Where a master serves its slaves",
        kind="mask",
        why="Two servers have two addresses.",
        where="ext.master*ddress",
        codes=frozenset({906}),
    ),
    Entry(
        title="Where a master's log ends",
        kind="mask",
        why="It depends on everything else that the broker has stored.",
        where="body.*masterCommitLogMaxOffset",
        codes=frozenset({907}),
        when=both(is_whole),
    ),
    Entry(
        title="What a CometMQ slave asks of its master",
        kind="difference",
        why="The status of a master carries `cometmq`, from which a CometMQ slave learns that it can ask for the whole "
        "log. Java skips the key.",
        where="body.json.cometmq*",
        codes=frozenset({907}),
    ),
)
