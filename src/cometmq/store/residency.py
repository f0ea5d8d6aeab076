"""Whether a part of the log is in memory: touching a page that is not would hold up the event loop for a disk.

What was written last surely is. Of the rest the page cache is asked, about every page that would be touched: that both
ends of a range are there says nothing of what stands between them. Records close together are asked about as one range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cometmq.store.commit_log import CommitLog
from cometmq.store.fs import FileSystem

RECENT_SIZE: Final = 256 * 1024 * 1024  # of the log's end
CLOSE_SIZE: Final = 1024 * 1024  # asking about so much costs less than asking about each of some records


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
        if not ranges or self.is_recent(ranges[0][0]):
            return False
        first, (last, last_size) = ranges[0][0], ranges[-1]
        end = last + last_size
        if end <= min(first + CLOSE_SIZE, self._log.segment_end(first)):
            ranges = [(first, end - first)]
        return not all(self._holds(offset, size) for offset, size in ranges)

    def _holds(self, offset: int, size: int) -> bool:
        view = self._log.slice(offset, size)
        return view is not None and self._fs.in_memory(view)
