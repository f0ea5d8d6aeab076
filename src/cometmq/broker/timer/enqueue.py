"""From the timer topic onto the wheel.

A time beyond the window of the wheel is put as far as the window goes, to be rolled from there. What is late already
(its slot is over) goes into the slot of now. What a kill left on the wheel behind the saved offset is passed over.

Mirrors: TimerMessageStore.enqueue, doEnqueue.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.loading import read_patiently
from cometmq.broker.timer.metrics import TimerMetrics
from cometmq.broker.timer.open_slots import Due
from cometmq.broker.timer.slots import Slots
from cometmq.broker.timer.stage import deliver_time_ms
from cometmq.clock import Clock
from cometmq.model import properties
from cometmq.model.java_hash import string_hash
from cometmq.model.names import TIMER_TOPIC
from cometmq.store.engine import Store
from cometmq.store.timer_files import TimerFiles
from cometmq.store.timer_log import DELETE, ROLL
from cometmq.store.timer_wheel import HALF_SLOTS
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.timer")

READ_COUNT: Final = 256
CHUNK: Final = 256  # messages put on the wheel between two pauses
BLANK_SLOTS: Final = 60
WINDOW_SLOTS_MAX: Final = HALF_SLOTS - BLANK_SLOTS
_QUEUE_ID: Final = 0


class Enqueue:
    """Reads the timer topic; `queue_offset` is how far."""

    def __init__(
        self,
        files: TimerFiles,
        store: Store,
        reader: InnerReader,
        metrics: TimerMetrics,
        slots: Slots,
        clock: Clock,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._files = files
        self._store = store
        self._reader = reader
        self._metrics = metrics
        self._slots = slots
        self._clock = clock
        self._pause = pause
        window = store.config.timer_roll_window_slot
        self.window_slots = window if 2 <= window <= WINDOW_SLOTS_MAX else WINDOW_SLOTS_MAX
        self.write_time_ms = max(slots.tick(clock.now_ms()), files.checkpoint.read_time_ms)  # never falls
        self.changed = False  # anything was put on the wheel
        self.until_ms = 0  # what was stored before is on the wheel
        low, self._recovered_offset = store.min_offset(TIMER_TOPIC, _QUEUE_ID), self.max_offset
        self.queue_offset = min(max(files.checkpoint.queue_offset, low), self._recovered_offset)
        found = read_patiently(store, TIMER_TOPIC, _QUEUE_ID, self.queue_offset, 1)[0].ranges
        self._placed = files.placed_since(found[0][0]) if found else set()

    @property
    def max_offset(self) -> int:
        return self._store.max_offset(TIMER_TOPIC, _QUEUE_ID)

    @property
    def behind(self) -> bool:
        """Whether there is something to read."""
        return self.max_offset > self.queue_offset

    def move_write_time(self) -> None:
        """It is later than it was: slots that are over take nothing more."""
        self.write_time_ms = max(self.write_time_ms, self._slots.tick(self._clock.now_ms()))

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Everything that is in the topic now."""
        self._files.write()  # what a full disk did not take the last time
        began_ms, target, unpaused = self._clock.now_ms(), self.max_offset, 0
        while self.queue_offset < target and not stopped():
            found = await self._reader.read(TIMER_TOPIC, _QUEUE_ID, self.queue_offset, READ_COUNT)
            if found.next_offset <= self.queue_offset:
                return
            self.move_write_time()
            for record in found.records:
                if record.physical_offset not in self._placed:
                    self._place(record)
                self.queue_offset = record.queue_offset + 1  # placed once, whatever becomes of the write
            self.queue_offset = found.next_offset
            self._files.write()
            if self.queue_offset >= self._recovered_offset:
                self._placed.clear()
            unpaused += len(found.records)
            if unpaused >= CHUNK or self.queue_offset >= target:
                unpaused = 0
                await self._pause()
        if self.queue_offset >= target:
            self.until_ms = began_ms

    def _place(self, record: Record) -> None:
        found = record.properties
        try:
            out_ms = int(found[properties.TIMER_OUT_MS])
            real_topic = found[properties.REAL_TOPIC]
        except (KeyError, ValueError):
            log.warning("the record at %d of the log is in the timer topic, but has no time", record.physical_offset)
            return
        write_ms = self.write_time_ms
        slot_ms, magic = self._slot_of(out_ms)
        recalls = found.get(properties.TIMER_DEL_UNIQKEY)
        if recalls is not None:
            magic |= DELETE
            self._slots.recall(recalls, out_ms)  # if it is late, it comes to another slot than what it recalls
        due_ms = 0
        if not magic & ROLL:
            due_ms = min(deliver_time_ms(found, record.store_time_ms) or 0, slot_ms + self._slots.precision_ms)
        offset, size = record.physical_offset, record.size
        self.changed = True
        pos = self._files.place(slot_ms, write_ms, magic, offset, size, string_hash(real_topic), due_ms)
        self._metrics.add(real_topic, -1 if recalls is not None else 1, self._clock.now_ms())
        slot = self._slots.open.get(slot_ms)
        if slot is None:
            self._slots.add(slot_ms)
        elif recalls is not None and not magic & ROLL:
            slot.markers.append(pos)
            slot.recalled.add(recalls)
        else:
            slot.add(due_ms, Due(pos, magic, offset, size, write_ms))

    def _slot_of(self, out_ms: int) -> tuple[int, int]:
        """The slot for a time, and the magic of its unit."""
        precision_ms, write_ms = self._slots.precision_ms, self.write_time_ms
        window_ms = self.window_slots * precision_ms
        slot_ms = max(self._slots.tick(out_ms), write_ms)
        over_ms = slot_ms - write_ms - window_ms
        if over_ms < 0:
            return slot_ms, 1
        short = over_ms < self.window_slots // 3 * precision_ms  # leave enough for the next time
        return write_ms + (self.window_slots // 2 * precision_ms if short else window_ms), 1 | ROLL
