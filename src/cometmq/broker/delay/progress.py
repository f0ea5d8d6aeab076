"""How far each delay level has been delivered: `delayOffset.json`.

    offsetTable        level → offset of the first message of its queue that is not delivered
    dataVersion        as in every table
    deliveredBefore    CometMQ's own: everything that was delivered before this offset of the log is in offsetTable.
                       Java skips the key, and drops it when it writes the file

Two states of the same table: `current` is what is delivered, `to_json` what is delivered and on the disk for certain.
Only the second is saved, so that not even a power cut under ASYNC_FLUSH can lose a message between the two topics.

    advance(…)  ──►  unsafe: (end in the log, level, offset)  ──►  safe, once the log is flushed up to that end

Mirrors: ScheduleMessageService (as ConfigManager), DelayOffsetSerializeWrapper.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from cometmq.broker.replicated import read_table, whole_rows
from cometmq.broker.saved import Saved, Table
from cometmq.clock import Clock
from cometmq.model.data_version import DataVersion
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.store.engine import Store

GROWTH_MAX: Final = 16 << 20  # bytes of log after which the file is written even if nothing was delivered


class DelayOffsets(Saved):
    """The table, and which part of it may be saved. `hold_at` keeps `deliveredBefore` back while old marks count."""

    def __init__(self, table: Table, store: Store, clock: Clock, version_step: int) -> None:
        super().__init__(table, self.to_json)
        self._store = store
        self._clock = clock
        self._version_step = max(1, version_step)
        self._updates = 0
        self.current: dict[int, int] = {}
        self._safe: dict[int, int] = {}
        self._unsafe: deque[tuple[int, int, int, int]] = deque()  # start and end in the log, level, offset
        self.delivered_before: int | None = None
        self.hold_at: int | None = None
        self._followed_at = 0
        self.keeps_ahead = False  # of a slave that may have delivered in its master's stead
        self.data_version = DataVersion(timestamp_ms=clock.now_ms())
        self.load(self._read)
        self._saved_at = self.delivered_before or 0

    def _read(self, saved: dict[str, Any]) -> None:
        for level, offset in (saved.get("offsetTable") or {}).items():
            self.current[int(level)] = self._safe[int(level)] = int(offset)
        if "dataVersion" in saved:
            self.data_version = DataVersion.from_json(saved["dataVersion"])
        if (before := saved.get("deliveredBefore")) is not None:
            self.delivered_before = int(before)

    def reply_json(self) -> dict[str, Any]:
        """The table as it is now, as Java shows it."""
        return {"dataVersion": self.data_version.to_json(), "offsetTable": self.current}

    def to_json(self) -> dict[str, Any]:
        """What may be saved now."""
        self._settle()
        before = self._unsafe[0][0] if self._unsafe else self._store.written_offset
        if self.hold_at is not None:
            before = min(before, self.hold_at)
        self._saved_at = before
        return {
            "dataVersion": self.data_version.to_json(),
            "deliveredBefore": before,
            "offsetTable": dict(self._safe),
        }

    def advance(self, level: int, offset: int, start: int | None = None, end: int | None = None) -> None:
        """Everything before `offset` of a level is delivered, the last of it between `start` and `end` of the log."""
        self._settle()
        self.current[level] = offset
        if start is not None and end is not None:
            # The same step may have passed deliveries of a killed process: their marks count until it is safe.
            start = start if self.hold_at is None else min(start, self.hold_at)
            self._unsafe.append((start, end, level, offset))
        elif self._unsafe:  # nothing was written this time, but something is under way
            self._unsafe.append((*self._unsafe[-1][:2], level, offset))
        else:
            self._safe[level] = offset
        self.mark()
        self._updates += 1
        if not self._updates % self._version_step:
            self.data_version.advance(self._clock.now_ms())

    def follow(self, body: bytes) -> None:
        """Be as far as the master is, who was asked after the last time that this was called: so what stood in our
        copy of the log by then is in the table for certain, and what came later may be."""
        rows, version = read_table(body, "offsetTable")
        offsets = whole_rows(rows)
        if self.keeps_ahead:
            levels = offsets.keys() | self.current.keys()
            offsets = {level: max(offsets.get(level, 0), self.current.get(level, 0)) for level in levels}
        self.delivered_before = self.hold_at = self._followed_at
        self._followed_at = self._store.written_offset
        if offsets != self.current:
            self.current, self._safe = offsets, dict(offsets)
            self.mark()
        if version is not None:
            self.data_version = version

    def take_back(self, body: bytes) -> None:
        """A slave that acted for us says how far it is; what it delivered is not delivered again."""
        for level, told in whole_rows(read_table(body, "offsetTable")[0]).items():
            offset = min(told, self._store.next_offset(SCHEDULE_TOPIC, level - 1))  # beyond are messages that we lost
            if offset > self.current.get(level, 0):
                self.current[level] = self._safe[level] = offset
                self.mark()

    def note_growth(self) -> None:
        """Have the file written if the log has grown much since: a scan after a kill must stay short."""
        if self._unsafe or self._store.written_offset - self._saved_at > GROWTH_MAX:
            self.mark()

    def _settle(self) -> None:
        flushed, unsafe = self._store.flushed_offset, self._unsafe
        while unsafe and unsafe[0][1] <= flushed:
            _, _, level, offset = unsafe.popleft()
            self._safe[level] = offset
