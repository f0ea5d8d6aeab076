"""Units whose code is an address: Java with `enableConsumeQueueExt` keeps the code elsewhere, beside a filter bitmap.

    consumequeue_ext/<topic>/<queue id>/<start of the file>

     0  size         2      10  store time   8
     2  code         8      18  bitmap size  2, and the bitmap

The address is the place in these files, counted from the smallest 64-bit number; a code that is a hash or a time is
greater than any address. CometMQ reads such units and writes none: a store that has them comes from Java.

Mirrors: ConsumeQueueExt.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from cometmq.store.config import StoreConfig
from cometmq.store.fs import FileSystem
from cometmq.store.segment import segment_path

ADDRESS_MAX: Final = -(1 << 31) - 1

_FIRST_ADDRESS: Final = -(1 << 63)
_HEAD: Final = Struct(">hq")


class QueueExtension:
    """Looks codes up; one that is not found is None."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        self._fs = fs
        self._folder = f"{config.store_path_root_dir}/consumequeue_ext"
        self._file_size = config.mapped_file_size_consume_queue_ext

    def code_at(self, topic: str, queue_id: int, address: int) -> int | None:
        """The code that a unit of this queue would hold without the extension."""
        place = address - _FIRST_ADDRESS
        start = place - place % self._file_size
        try:
            fd = self._fs.open(segment_path(f"{self._folder}/{topic}/{queue_id}", start), read_only=True)
        except OSError:
            return None
        try:
            data = self._fs.pread(fd, _HEAD.size, place - start)
        finally:
            self._fs.close(fd)
        size, code = _HEAD.unpack(data) if len(data) == _HEAD.size else (0, 0)
        return int(code) if size > 0 else None
