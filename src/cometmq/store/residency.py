"""Whether a part of the log is in memory: touching a page that is not would hold up the event loop for a disk.

What was written last surely is. Of the rest the page cache is asked, at both ends of the range, with a read that does
not wait; a file system that cannot tell makes it count as absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cometmq.store.commit_log import CommitLog
from cometmq.store.fs import FileSystem

RECENT_SIZE: Final = 256 * 1024 * 1024  # of the log's end


class Residency:
    """Asks about ranges of one log."""

    def __init__(self, fs: FileSystem, log: CommitLog) -> None:
        self._fs = fs
        self._log = log
        self.recent_from = 0  # what stands before it was written by an earlier process

    def is_recent(self, offset: int) -> bool:
        """Whether what stands there, and so all behind it, was written last."""
        return offset >= self.recent_from and offset >= self._log.written - RECENT_SIZE

    def is_cold(self, ranges: Sequence[tuple[int, int]]) -> bool:
        """Whether reading these records (offset, size), which stand in this order, could wait for a disk."""
        if not ranges:
            return False
        first, (last, size) = ranges[0][0], ranges[-1]
        if self.is_recent(first):
            return False
        return not all(map(self._in_memory, (first, last + size - 1)))

    def _in_memory(self, offset: int) -> bool:
        segment = self._log.segment_of(offset)
        return segment is not None and self._fs.in_memory(segment.path, offset - segment.start)
