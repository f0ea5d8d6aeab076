"""How far the timer got, as `config/timercheck` keeps it.

     0  read time       8   every slot before it is delivered
     8  log flushed     8   timer log position up to which log and wheel are on disk
    16  queue offset    8   of the timer topic: everything before it is on the wheel
    24  master offset   8   the same, as the master of the group says
    32  state version   8   ┐
    40  timestamp       8   ├ data version
    48  counter         8   ┘
    56  zeros               what Java knows ends here
    64  log offset      8   CommitLog offset before which every delivery is in the progress above
    72  read time       8   ┐ copies: if they differ from the above, Java wrote last and the log offset
    80  queue offset    8   ┘ means nothing

Big-endian, one page, all of it within one sector.

Mirrors: TimerCheckpoint.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from cometmq.errors import ProtocolError
from cometmq.store.fs import FileSystem, write_all

FILE_SIZE: Final = 4096
_FIELDS: Final = Struct(">7q")
_OWN: Final = Struct(">3q")
_OWN_AT: Final = 64


def read_checkpoint(data: bytes) -> tuple[int, int]:
    """The read time and the master's queue offset of what another broker says."""
    if len(data) < _FIELDS.size:
        raise ProtocolError(f"a timer checkpoint has {_FIELDS.size} bytes, not {len(data)}")
    read_time_ms, _, _, master_queue_offset, *_ = _FIELDS.unpack_from(data)
    return read_time_ms, master_queue_offset


class TimerCheckpoint:
    """Plain fields, `load` and `save`."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._fd = -1
        self.read_time_ms = 0
        self.log_flushed_pos = 0
        self.queue_offset = 0
        self.master_queue_offset = 0
        self.state_version = 0
        self.timestamp_ms = 0
        self.counter = 0
        self.scan_offset: int | None = None  # None: Java wrote last, or nobody yet

    def load(self) -> None:
        """Open the file, make it where it is absent, and read what it says."""
        self._fs.make_dirs(self._path.rpartition("/")[0])
        self._fd = self._fs.open(self._path, create=True)
        data = self._fs.pread(self._fd, _OWN_AT + _OWN.size, 0)
        if self._fs.size(self._path) < FILE_SIZE:
            self._fs.truncate(self._fd, FILE_SIZE)
        data = data.ljust(_OWN_AT + _OWN.size, b"\0")
        (
            self.read_time_ms,
            self.log_flushed_pos,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp_ms,
            self.counter,
        ) = _FIELDS.unpack_from(data)
        scan_offset, read_time_ms, queue_offset = _OWN.unpack_from(data, _OWN_AT)
        ours = self.read_time_ms and (read_time_ms, queue_offset) == (self.read_time_ms, self.queue_offset)
        self.scan_offset = scan_offset if ours else None

    def pack(self) -> bytes:
        """What Java knows of it: also the body of the answer to GET_TIMER_CHECK_POINT."""
        return _FIELDS.pack(
            self.read_time_ms,
            self.log_flushed_pos,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp_ms,
            self.counter,
        )

    def follow(self, data: bytes) -> None:
        """A slave is told how far its master is; its own place in the timer topic and its files are its own.

        A Java master does not say where the log is to be scanned, nor does it leave marks there.
        """
        if len(data) < _FIELDS.size:
            raise ProtocolError(f"a timer checkpoint has {_FIELDS.size} bytes, not {len(data)}")
        self.read_time_ms, _, _, self.master_queue_offset, *version = _FIELDS.unpack_from(data)
        self.state_version, self.timestamp_ms, self.counter = version
        whole = len(data) >= _OWN_AT + _OWN.size
        self.scan_offset = _OWN.unpack_from(data, _OWN_AT)[0] if whole else None

    def pack_all(self) -> bytes:
        own = _OWN.pack(self.scan_offset or 0, self.read_time_ms, self.queue_offset)
        return self.pack().ljust(_OWN_AT, b"\0") + own

    def save(self, data: bytes) -> None:
        """Write what `pack_all` made, and sync. Any thread."""
        if self._fd >= 0:
            write_all(self._fs, self._fd, data, 0)
            self._fs.sync(self._fd)

    def close(self) -> None:
        """Let go of the file without a save."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._fs.close(fd)
