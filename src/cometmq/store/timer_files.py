"""Wheel, log and checkpoint of the timer as one: what waits, in which slot, and how to find it again after a kill.

    place      a message gets its unit in the log and its slot on the wheel (memory)
    write      both to the system: from here on a kill loses nothing of it
    prepare_flush → run     both to the disk, then the checkpoint that says so (worker thread); of two that meet, the
                            later one does the work of both, and an old checkpoint never covers a new one

What a kill between the writes can leave, `open` puts right:

- units in the log that the wheel does not chain: they are chained;
- units whose message the CommitLog has lost with the power: they are cut off;
- messages of the timer topic that are in the log, but behind the saved queue offset: `placed_since` names them.

Mirrors: TimerMessageStore (recover, recoverAndRevise, doEnqueue, prepareTimerCheckPoint).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from cometmq.errors import StoreError
from cometmq.store.fs import FileSystem
from cometmq.store.timer_checkpoint import TimerCheckpoint
from cometmq.store.timer_log import DELETE, NO_POS, ROLL, UNIT_SIZE, TimerLog, TimerUnit
from cometmq.store.timer_wheel import TimerWheel

_RECHECKED: Final = UNIT_SIZE * 20_000  # before the flushed position: Java's wheel may lag behind what it says


class TimerFiles:
    """The timer's files, open."""

    def __init__(self, fs: FileSystem, root: str, *, precision_ms: int, log_file_size: int) -> None:
        self._fs = fs
        self.precision_ms = precision_ms
        self.wheel = TimerWheel(fs, f"{root}/timerwheel", precision_ms)
        self.log = TimerLog(fs, f"{root}/timerlog", log_file_size)
        self._sync_fault: str | None = None  # after it nobody knows what is on the disk
        self.checkpoint = TimerCheckpoint(fs, f"{root}/config/timercheck")
        self._flushing = Lock()  # a stop cancels who waits for a flush, not the thread that does it
        self._unsynced: deque[int] = deque()  # descriptors that no flush has synced yet
        self._flushes = 0
        self._flushed = 0  # the latest whose checkpoint is saved

    def open(self, log_end: int) -> None:
        """Load and put right; `log_end` is where the CommitLog ends."""
        self.checkpoint.load()
        self.log.load(self.checkpoint.log_flushed_pos)
        self.wheel.load()
        self._cut_lost(log_end)
        self._chain_unchained()
        self.wheel.write()

    def _cut_lost(self, log_end: int) -> None:
        end = self.log.end
        for pos, unit in self.log.walk_back():
            if unit.offset + unit.size <= log_end:
                break
            end = pos
            slot = self.wheel.slot(unit.slot_ms)
            if slot is None or slot.last_pos != pos:
                continue
            if unit.previous_pos < 0:
                self.wheel.clear(unit.slot_ms)
            else:
                self.wheel.put(unit.slot_ms, slot.first_pos, unit.previous_pos, slot.number - _count(unit))
        if end < self.log.end:
            self.log.cut(end)

    def _chain_unchained(self) -> None:
        start = self.log.aligned(max(self.checkpoint.log_flushed_pos - _RECHECKED, 0))
        for pos, unit in self.log.walk(start):
            if unit.slot_ms < self.checkpoint.read_time_ms or self.wheel.held_by_later(unit.slot_ms):
                continue
            slot = self.wheel.slot(unit.slot_ms)
            if slot is None:
                self.wheel.put(unit.slot_ms, pos, pos, _count(unit))
            elif slot.last_pos < pos:
                self.wheel.put(unit.slot_ms, slot.first_pos, pos, slot.number + _count(unit))

    def placed_since(self, offset: int) -> set[int]:
        """CommitLog offsets from `offset` on of messages that are in the log already."""
        found = set()
        for _, unit in self.log.walk_back():
            if unit.offset < offset:
                break
            found.add(unit.offset)
        return found

    def place(
        self, slot_ms: int, write_time_ms: int, magic: int, offset: int, size: int, topic_hash: int, due_ms: int
    ) -> int:
        """Put a message into a slot; returns the position of its unit."""
        slot = self.wheel.slot(slot_ms)
        previous, number = (NO_POS, 0) if slot is None else (slot.last_pos, slot.number)
        delay_ms = slot_ms - write_time_ms
        pos = self.log.append(previous, magic, write_time_ms, delay_ms, offset, size, topic_hash, due_ms)
        first = pos if slot is None else slot.first_pos
        self.wheel.put(slot_ms, first, pos, number + (-1 if magic & DELETE else 1))
        return pos

    def replace(self, slot_ms: int, write_time_ms: int, units: list[TimerUnit], delivered: TimerUnit) -> None:
        """Let a slot hold these units only: the rest of it is delivered.

        Recovery, Java's too, chains the last unit that it finds in the log for a slot. So where none is left, one of
        the delivered is put again as a mark of recall that recalls nothing.
        """
        self.wheel.clear(slot_ms)
        for unit in units or [delivered._replace(magic=delivered.magic & ~ROLL | DELETE)]:
            self.place(slot_ms, write_time_ms, unit.magic, unit.offset, unit.size, unit.topic_hash, unit.due_ms)
        slot = self.wheel.slot(slot_ms)
        if slot is not None and not units:
            self.wheel.put(slot_ms, slot.first_pos, slot.last_pos, 0)

    def write(self) -> None:
        """Hand everything placed to the system, the log first."""
        self.log.write()
        self.wheel.write()

    def number_at(self, slot_ms: int) -> int:
        """How many messages wait in a slot."""
        slot = self.wheel.slot(slot_ms)
        return 0 if slot is None else slot.number

    def prepare_flush(self) -> Callable[[], None]:
        """What brings everything written so far to the disk, then the checkpoint as it is now. Any thread runs it."""
        self._unsynced.extend(self.log.take_unsynced())
        self.checkpoint.log_flushed_pos = self.log.written
        data = self.checkpoint.pack_all()
        self._flushes = number = self._flushes + 1

        def run() -> None:
            with self._flushing:
                if number > self._flushed:
                    self._flush(data)
                    self._flushed = number

        return run

    def _flush(self, data: bytes) -> None:
        if self._sync_fault is not None:
            raise StoreError(self._sync_fault)
        try:
            fds = [self._unsynced.popleft() for _ in range(len(self._unsynced))]
            if fds:
                self.log.sync(fds)
                self.wheel.sync()
            self.checkpoint.save(data)
        except OSError as fault:
            self._sync_fault = (
                f"the timer's files could not be synced ({fault.strerror or fault}), so its progress is no longer "
                "saved: messages are delivered, and a start finds what was; check the disk and start again"
            )
            raise StoreError(self._sync_fault) from fault

    def delete_before(self, min_offset: int, write_time_ms: int) -> list[str]:
        """Forget log files of which no message is left; returns the files for `remove`."""
        return self.log.delete_before(min_offset, write_time_ms)

    def remove(self, paths: list[str]) -> None:
        """Remove files that were forgotten. Any thread."""
        for path in paths:
            self._fs.unlink(path)

    def close(self) -> None:
        """Let go, as a kill would; who wants more calls `write` and flushes before. Waits for a flush under way."""
        with self._flushing:
            self._flushed = self._flushes  # one that has not begun finds nothing to do
            self.log.close()
            self.wheel.close()
            self.checkpoint.close()


def _count(unit: TimerUnit) -> int:
    return -1 if unit.magic & DELETE else 1
