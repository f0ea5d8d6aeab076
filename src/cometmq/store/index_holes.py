"""Does the index know the messages between two of its files, and behind the last?

The first message there that has a key tells, for files are written in the order of the log. Only the newest ten files
of the log are looked at, from which a lost index is made again; messages of queues that are gone do not count.

Mirrors: nothing in Java.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from cometmq.model import properties
from cometmq.store.commit_log import CommitLog
from cometmq.store.index_keys import ROLLBACK, index_keys
from cometmq.store.log_walk import Walk
from cometmq.store.queue_table import QueueTable

INDEX_SEGMENTS_MAX: Final = 10  # so far back a lost index is made again
_RECORDS_MAX: Final = 1000  # messages without keys that are passed over in each file of the log


def indexed_from(log: CommitLog) -> int:
    """Where a lost index begins when it is made again."""
    return sorted(log.segments)[-INDEX_SEGMENTS_MAX:][0] if log.segments else 0


def lacks_some(log: CommitLog, tables: Sequence[QueueTable], begin: int, end: int) -> bool:
    """Whether there is a message with a key behind the one at `begin` and before the one at `end`."""
    first = max(begin, indexed_from(log))
    for start in sorted(start for start in log.segments if log.segment_start(first) <= start < end):
        walk = Walk(log.view_of(start), start, max(first - start, 0), check_crc=False)
        for at, _, queue_id, _, sys_flag, _, topic, data in islice(walk, _RECORDS_MAX):
            if start + at >= end:
                return False
            if start + at > begin and sys_flag & ROLLBACK != ROLLBACK and _has_keys(data):
                key = topic.decode(errors="replace"), queue_id
                if any(key in table.queues for table in tables):
                    return True
    return False


def _has_keys(data: bytes) -> bool:
    found = properties.parse(str(data, "utf-8", "replace"))
    return bool(index_keys(*(found.get(name) for name in (properties.UNIQ_KEY, properties.KEYS, properties.TAGS))))
