"""How far everything is known to be on disk: the starting point of recovery after a kill.

     0  physic_ms                store time of the last flushed message of the CommitLog
     8  logics_ms                ... of the last message whose ConsumeQueue unit is flushed
    16  index_ms                 ... of the last message whose index entries are flushed
    24  master_flushed_offset    how far the master had flushed
    32  confirm_physical_offset  how far the replicas had confirmed
    40  logics_physical_offset   CommitLog offset up to which ConsumeQueues are flushed
  2048  CometMQ's own: the same 48 bytes again, and their CRC-32

Big-endian, one page, each copy within one sector. Only these bytes are written, so what a later version keeps beside
them survives. A file that is absent or too short counts as zeros: recovery then starts at the first segment, which is
slow and always right. So is an older checkpoint than the newest: a sound second copy is taken even if the first, which
nothing guards, says more (Java, which writes only the first, was here; or a bit has flipped).

Mirrors: StoreCheckpoint.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from cometmq.store.fs import FileSystem, write_all
from cometmq.store.syncing import sync_file

FILE_SIZE: Final = 4096
# Flush times are taken before the flush ends, and Java's clock steps are coarse: recovery starts earlier by this.
MARGIN_MS: Final = 3000

SECOND_AT: Final = 2048

_FIELDS: Final = Struct(">qqqqqq")
_CRC: Final = Struct(">I")


class Checkpoint:
    """Plain fields, `load` and `flush`."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._fd = -1
        self._written = b""
        self._synced = True
        self.physic_ms = 0
        self.logics_ms = 0
        self.index_ms = 0
        self.master_flushed_offset = 0
        self.confirm_physical_offset = 0
        self.logics_physical_offset = 0

    def load(self) -> None:
        """Open the file, make it where it is absent, and read what it says."""
        self._fd = self._fs.open(self._path, create=True)
        data = self._fs.pread(self._fd, _FIELDS.size, 0)
        second = self._fs.pread(self._fd, _FIELDS.size + _CRC.size, SECOND_AT)
        if any(second) and second[_FIELDS.size :] == _CRC.pack(crc32(second[: _FIELDS.size])):
            data = second[: _FIELDS.size]
        if self._fs.size(self._path) < FILE_SIZE:
            self._fs.truncate(self._fd, FILE_SIZE)
        (
            self.physic_ms,
            self.logics_ms,
            self.index_ms,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        ) = _FIELDS.unpack(data.ljust(_FIELDS.size, b"\0"))

    def pack(self) -> bytes:
        """The bytes that a flush would write now."""
        return _FIELDS.pack(
            self.physic_ms,
            self.logics_ms,
            self.index_ms,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        )

    def write(self) -> None:
        """Write, if anything changed since the last time."""
        data = self.pack()
        if data != self._written:
            write_all(self._fs, self._fd, data, 0)
            write_all(self._fs, self._fd, data + _CRC.pack(crc32(data)), SECOND_AT)
            self._written = data
            self._synced = False

    def flush(self) -> None:
        """Write and sync, if anything changed since the last time."""
        self.write()
        if not self._synced:
            sync_file(self._fs, self._fd)
            self._synced = True

    @property
    def min_ms(self) -> int:
        """Log and queues are complete up to this store time."""
        return max(min(self.physic_ms, self.logics_ms) - MARGIN_MS, 0)

    @property
    def min_index_ms(self) -> int:
        """Log, queues and index are complete up to this store time."""
        return min(self.min_ms, self.index_ms)

    def close(self) -> None:
        """Flush and close."""
        if self._fd >= 0:
            self.flush()
            self.let_go()

    def let_go(self) -> None:
        """Close without a flush."""
        if self._fd >= 0:
            self._fs.close(self._fd)
            self._fd = -1
