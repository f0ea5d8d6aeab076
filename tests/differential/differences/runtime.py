"""How a broker fares: request 28."""

from __future__ import annotations

import re
from typing import Any, Final

from .entry import NOTHING, Difference, Entry

_CODES: Final = frozenset({28})
_SIZE = r"[0-9.]+ ([KMGTPE]i)?B"
_KINDS: Final = tuple(
    map(
        re.compile,
        (
            r"\d+",
            r"\d+\.\d+(E-\d+)?",
            r"[0-9.E-]*( [0-9.E-]*){2}",  # rates by window, of which the longer ones may not be over
            _SIZE,
            rf"Total : {_SIZE}, Free : {_SIZE}\.",
            r"\[ 0 days(, \d+ \w+){3} \]",
            r"null|(\[[^]]+\]:\d+ ){13}",  # writes of each class, in the minute before
        ),
    )
)


def _of_one_kind(difference: Difference) -> bool:
    values = difference.java, difference.comet
    return any(all(isinstance(value, str) and kind.fullmatch(value) for value in values) for kind in _KINDS)


def _is_progress(value: Any) -> bool:
    return value is NOTHING or (isinstance(value, str) and re.fullmatch(r"\d+,\d+", value) is not None)


def _differs_by_its_time(difference: Difference) -> bool:
    if difference.where.startswith("body.json.table.scheduleMessageOffset_"):
        return _is_progress(difference.java) and _is_progress(difference.comet)
    return _of_one_kind(difference)


ENTRIES: Final = (
    Entry(
        title="Where the log is",
        kind="mask",
        why="The name of the folder is a part of the key.",
        where="body.json.table.commitLogDiskRatio_*",
        codes=_CODES,
    ),
    Entry(
        title="What a CometMQ broker says of its store",
        kind="difference",
        why="`cometmq.store.state` is `writable`, `following` (a slave), `disk full`, `read-only` (the log is damaged) "
        "or `fenced` (the disk failed), `cometmq.store.fenced` is 1 in the last two, and `cometmq.store.why` says it "
        "in a sentence.",
        where="body.json.table.cometmq.store.*",
        codes=_CODES,
    ),
    Entry(
        title="How a broker fares",
        kind="mask",
        why="Counts, rates, times and sizes are those of the moment. CometMQ counts what consumers read, not what the "
        "broker reads for itself; a write time is that of all messages of one moment; `getMessageEntireTimeMax`, the "
        "totals of midnight and the rates of the timer are not counted and stay 0.",
        where="body.json.table.*",
        codes=_CODES,
        when=_differs_by_its_time,
    ),
)
