"""How far everything is known to be on disk: the starting point of recovery after a kill.

     0  physic_ms                store time of the last flushed message of the CommitLog
     8  logics_ms                ... of the last message whose ConsumeQueue unit is flushed
    16  index_ms                 ... of the last message whose index entries are flushed
    24  master_flushed_offset    how far the master had flushed
    32  confirm_physical_offset  how far the replicas had confirmed
    40  logics_physical_offset   CommitLog offset up to which ConsumeQueues are flushed
  2048  CometMQ's own: the same 48 bytes again
  2096  flushed                  CommitLog offset up to which everything is flushed: whole records
  2104  CRC-32 of these 56 bytes

Big-endian, one page, each copy within one sector. Only these bytes are written, so what a later version keeps beside
them survives. A file that is absent or too short counts as zeros: recovery then starts at the first segment, which is
slow and always right. So is an older checkpoint than the newest: a sound second copy is taken even if the first, which
nothing guards, says more (Java, which writes only the first, was here; or a bit has flipped).

`flushed` never says more than is on the disk: who cuts the log below it lowers and syncs it first. It is believed only
where both copies agree, for Java cuts the log as it likes (`vouches`).

Mirrors: StoreCheckpoint.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from cometmq.clock import SystemClock
from cometmq.store.fs import FileSystem, write_all
from cometmq.store.syncing import sync_file

FILE_SIZE: Final = 4096
# Flush times are taken before the flush ends, and Java's clock steps are coarse: recovery starts earlier by this.
MARGIN_MS: Final = 3000
AHEAD_MS_MAX: Final = 30 * 24 * 3_600_000  # a store time so far in the future is damaged

SECOND_AT: Final = 2048

_FIELDS: Final = Struct(">qqqqqq")
_FLUSHED: Final = Struct(">q")
_CRC: Final = Struct(">I")
_GUARDED_SIZE: Final = _FIELDS.size + _FLUSHED.size


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
        self.flushed = 0
        self.vouches = False  # what was loaded says with `flushed` how far the log was on the disk
        self.proven_ms = 0  # what was stored before was flushed, by either copy as loaded

    def load(self) -> None:
        """Open the file, make it where it is absent, and read what it says."""
        self._fd = self._fs.open(self._path, create=True)
        data = self._fs.pread(self._fd, _FIELDS.size, 0).ljust(_FIELDS.size, b"\0")
        second = self._fs.pread(self._fd, _GUARDED_SIZE + _CRC.size, SECOND_AT)
        guarded = second[:_GUARDED_SIZE]
        times = [int.from_bytes(data[:8])]
        if any(second) and second[_GUARDED_SIZE:] == _CRC.pack(crc32(guarded)):
            self.vouches = guarded[: _FIELDS.size] == data
            data = guarded[: _FIELDS.size]
            times.append(int.from_bytes(data[:8]))
        newest_ms = SystemClock().now_ms() + AHEAD_MS_MAX
        self.proven_ms = max((time_ms for time_ms in times if time_ms < newest_ms), default=0)
        self.flushed = _FLUSHED.unpack_from(guarded, _FIELDS.size)[0] if self.vouches else 0
        if self._fs.size(self._path) < FILE_SIZE:
            self._fs.truncate(self._fd, FILE_SIZE)
        (
            self.physic_ms,
            self.logics_ms,
            self.index_ms,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        ) = _FIELDS.unpack(data)

    def pack(self) -> bytes:
        """The bytes of the second copy that a flush would write now; the first is their beginning."""
        return _FIELDS.pack(
            self.physic_ms,
            self.logics_ms,
            self.index_ms,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        ) + _FLUSHED.pack(self.flushed)

    def write(self) -> None:
        """Write, if anything changed since the last time."""
        data = self.pack()
        if data != self._written:
            write_all(self._fs, self._fd, data[: _FIELDS.size], 0)
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
    def says_nothing(self) -> bool:
        """Whether there was none, or none that can be read."""
        return not self.vouches and self.proven_ms == 0

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
