"""Whether a part of the log is in memory: touching a page that is not would hold up the event loop for a disk.

What was written last surely is. Of the rest the page cache is asked, at both ends of the range, with a read that does
not wait; a file system that cannot tell makes it count as absent. A yes counts for a second, and for what stands
shortly before: the system reads ahead, and takes memory back from what was not used for long.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from cometmq.store.commit_log import CommitLog
from cometmq.store.fs import FileSystem

RECENT_SIZE: Final = 256 * 1024 * 1024  # of the log's end
NEIGHBOURHOOD: Final = 256 * 1024
KNOWN_S: Final = 1.0
KNOWN_MAX: Final = 4_096


class Residency:
    """Asks about ranges of one log."""

    def __init__(self, fs: FileSystem, log: CommitLog) -> None:
        self._fs = fs
        self._log = log
        self._known: dict[int, tuple[float, int]] = {}  # by neighbourhood: until when it counts, and up to where
        self.recent_from = 0  # what stands before it was written by an earlier process

    def is_recent(self, offset: int) -> bool:
        """Whether what stands there, and so all behind it, was written last."""
        return offset >= self.recent_from and offset >= self._log.written - RECENT_SIZE

    def is_cold(self, ranges: Sequence[tuple[int, int]]) -> bool:
        """Whether reading these records (offset, size), which stand in this order, could wait for a disk."""
        if not ranges:
            return False
        last, size = ranges[-1]
        return not self.holds(ranges[0][0], last + size)

    def holds(self, start: int, end: int) -> bool:
        """Whether what stands there can be read at once."""
        return self.is_recent(start) or (self._in_memory(start) and self._in_memory(end - 1))

    def _in_memory(self, offset: int) -> bool:
        now, neighbourhood = time.monotonic(), offset // NEIGHBOURHOOD
        until, highest = self._known.get(neighbourhood, (0.0, 0))
        if offset <= highest and now < until:
            return True
        segment = self._log.segment_of(offset)
        if segment is None or not self._fs.in_memory(segment.path, offset - segment.start):
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[neighbourhood] = now + KNOWN_S, offset
        return True
