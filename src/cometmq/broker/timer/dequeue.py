"""Off the wheel, into the real topics: opening slots, making messages ready, and storing them when they are due.

Done in chunks with a pause between, so that others get their turn. What is ready has a maximum in bytes.

Mirrors: TimerMessageStore.dequeue, doPut.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import Final

from cometmq.broker.delivered_marks import TIMER_SOURCE, delivered_since
from cometmq.broker.durability import Durability
from cometmq.broker.inner_messages import InnerMessages
from cometmq.broker.timer.delivery import Ready, load_records, make_ready, time_property, waiting_record
from cometmq.broker.timer.elsewhere import Elsewhere
from cometmq.broker.timer.metrics import TimerMetrics
from cometmq.broker.timer.open_slots import Due, OpenSlot, Strip
from cometmq.broker.timer.slots import Slots
from cometmq.clock import Clock
from cometmq.errors import MessageRefused, RequestRefused
from cometmq.model import properties
from cometmq.store.engine import Store
from cometmq.store.timer_files import TimerFiles
from cometmq.store.timer_log import DELETE, ROLL
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.timer")

CHUNK: Final = 200  # messages made ready or delivered between two pauses
READY_BYTES_MAX: Final = 96 << 20
TOLD_ON_THE_WAY: Final = frozenset(
    {properties.TIMER_ENQUEUE_MS, properties.TIMER_DEQUEUE_MS, properties.TIMER_ROLL_TIMES}
)


class Dequeue:
    """Delivers; `end` is the end of the last delivery in the CommitLog."""

    def __init__(
        self,
        files: TimerFiles,
        store: Store,
        messages: InnerMessages,
        durability: Durability,
        metrics: TimerMetrics,
        slots: Slots,
        clock: Clock,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._files = files
        self._store = store
        self._messages = messages
        self._durability = durability
        self._metrics = metrics
        self._slots = slots
        self._clock = clock
        self._pause = pause
        self._keys_with_topic = store.config.append_topic_for_timer_delete_key
        self._ready_bytes = 0  # in memory
        self.changed = False  # anything was delivered
        self.end = 0
        self.elsewhere = Elsewhere()
        latest_ms = max(clock.now_ms(), store.store_times_ms[1])  # the clock may have been set back
        self._recovered_until_ms = slots.tick(latest_ms) + slots.precision_ms
        self._delivered: set[int] = set()  # by CommitLog offset, before a kill and not in the saved progress
        if files.checkpoint.scan_offset is not None:
            marks = delivered_since(store, files.checkpoint.scan_offset, TIMER_SOURCE)
            self._delivered = {mark.physical_offset for mark in marks}

    @property
    def recovering(self) -> bool:
        """Whether the marks from before a kill are still needed."""
        return bool(self._delivered)

    def forget_delivered(self, read_time_ms: int) -> None:
        """Every slot before this time is delivered."""
        if read_time_ms >= self._recovered_until_ms:
            self._delivered.clear()

    async def open_until(self, time_ms: int) -> None:
        """Bring the slots up to this time into memory."""
        loop = asyncio.get_running_loop()
        while (slot_ms := self._slots.next_closed_ms) is not None and slot_ms <= time_ms:
            slot = OpenSlot(slot_ms, self._slots.precision_ms)
            found = self._files.wheel.slot(slot_ms)
            markers = await loop.run_in_executor(None, self._fill, slot, found.last_pos) if found else []
            for record in await self._records(markers):
                recalls = None if record is None else record.properties.get(properties.TIMER_DEL_UNIQKEY)
                if record is not None and recalls is not None:
                    slot.recalled.add(recalls)
                    # If it was late, it is in another slot than what it recalls.
                    self._slots.recall(recalls, int(record.properties[properties.TIMER_OUT_MS]))
            self._slots.opened(slot)

    def _fill(self, slot: OpenSlot, last_pos: int) -> list[tuple[int, int]]:
        """Read what is in a slot, in a thread: it may be a million. Returns where the marks of recall are."""
        markers = []
        for pos, unit in self._files.log.chain(last_pos):
            if unit.magic & DELETE and not unit.magic & ROLL:
                slot.markers.append(pos)
                markers.append((unit.offset, unit.size))
            else:
                slot.add(unit.due_ms, Due(pos, unit.magic, unit.offset, unit.size, unit.write_time_ms))
        slot.turn_round()  # the last came first
        return markers[::-1]

    async def _records(self, ranges: list[tuple[int, int]]) -> list[Record | None]:
        if not ranges:
            return []
        segment_size = self._store.config.mapped_file_size_commit_log
        pieces = await load_records(self._store.load, ranges, segment_size)
        return [waiting_record(piece, offset) for piece, (offset, _) in zip(pieces, ranges, strict=True)]

    async def deliver(self, stopped: Callable[[], bool]) -> None:
        """Everything that is due now."""
        for slot in self._slots.in_order():
            for strip in slot.due(self._clock.now_ms()):
                while strip and not stopped():
                    if not strip.ready:
                        await self._make_ready(strip)
                    self._deliver_ready(slot, strip.ready)
                    await self._pause()

    async def make_ready_ahead(self, stopped: Callable[[], bool]) -> None:
        """Use the time before the next is due: what is ready is stored at once when its time has come."""
        for slot in self._slots.in_order():
            for strip in slot.strips.values():
                while strip.is_waiting:
                    next_ms = self._slots.next_ms()
                    due = next_ms is not None and next_ms <= self._clock.now_ms()
                    if due or stopped() or self._ready_bytes >= READY_BYTES_MAX:
                        return
                    await self._make_ready(strip)
                    await self._pause()

    async def _make_ready(self, strip: Strip) -> None:
        dues = strip.first(CHUNK)
        records = await self._records([(due.offset, due.size) for due in dues])
        ready: list[Ready] = []
        for due, record in zip(dues, records, strict=True):
            if record is None or due.offset in self._delivered or self.elsewhere.has_delivered(record):
                continue
            roll = bool(due.magic & ROLL)
            one = make_ready(record, due.pos, due.write_time_ms, roll=roll, with_topic=self._keys_with_topic)
            if one is None:
                log.warning("the record at %d of the log does not say where it is to be delivered", due.offset)
                continue
            self._ready_bytes += one.memory_size
            ready.append(one)
        strip.made(len(dues), ready)

    def _deliver_ready(self, slot: OpenSlot, ready: deque[Ready]) -> None:
        now_ms = self._clock.now_ms()
        if slot.began_at is None:
            slot.began_at = self._store.written_offset
        last_property = time_property(now_ms)
        append, counts = self._store.append, defaultdict[str, int](int)
        try:
            for _ in range(min(CHUNK, len(ready))):
                one = ready[0]
                if one.recalls is not None:
                    self._slots.recall(one.recalls, one.out_ms)  # rolled late, it may come too late to the wheel
                elif self._slots.is_recalled(slot, one.out_ms, one.key):
                    self._drop_first(slot, ready)
                    continue
                try:
                    if one.staged:
                        message = one.message()
                        message.properties[properties.TIMER_DEQUEUE_MS] = str(now_ms)
                        placed = self._messages.put(message)
                    else:
                        data = one.properties_data + last_property
                        placed = append(one.to_topic, one.queue_id, one.body, data, *one.rest)
                    self.end = placed.physical_offset + placed.size
                except MessageRefused as refused:
                    self._deliver_plain(one, refused)
                except RequestRefused as refused:
                    log.warning("a message for %s could not be delivered and is dropped: %s", one.topic, refused)
                counts[one.topic] += 1 if one.recalls is not None else -1
                self._drop_first(slot, ready)
        finally:
            self._durability.end_turn_soon()
            for topic, count in counts.items():
                self._metrics.add(topic, count, now_ms)

    def _deliver_plain(self, one: Ready, refused: MessageRefused) -> None:
        """Its properties may have no room for what the way adds: then it goes without that, its mark at the last."""
        for left_out in (TOLD_ON_THE_WAY, {*TOLD_ON_THE_WAY, properties.DELIVERED_MARK}):
            message = one.message()
            message.properties = {key: value for key, value in message.properties.items() if key not in left_out}
            try:
                placed = self._messages.put(message)
            except MessageRefused:
                continue
            self.end = placed.physical_offset + placed.size
            return
        log.warning("a message for %s could not be delivered and is dropped: %s", one.topic, refused)

    def _drop_first(self, slot: OpenSlot, ready: deque[Ready]) -> None:
        done = ready.popleft()
        self._ready_bytes -= done.memory_size
        slot.delivered_pos, self.changed = done.pos, True

    def leave(self, slot: OpenSlot, write_time_ms: int) -> None:
        """Let the files hold of an opened slot only what still waits."""
        unit_at = self._files.log.unit_at
        if slot.delivered_pos is not None and (delivered := unit_at(slot.delivered_pos)) is not None:
            units = [unit for pos in slot.waiting() if (unit := unit_at(pos)) is not None]
            self._files.replace(slot.slot_ms, max(write_time_ms, slot.slot_ms), units, delivered)
        slot.began_at = None
