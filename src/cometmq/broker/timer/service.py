"""Messages that wait for their time: from the timer topic onto the wheel, and off it where they belong.

One task, one turn after the other:

    enqueue     what came to the timer topic gets its unit and its slot; times beyond the window are rolled there
    open        slots of the next ticks come into memory (`open_slots`)
    deliver     what is due is stored in its real topic, in chunks with a pause between, so that others get their turn;
                in the time before, it is made ready, so that many can be due in one moment
    commit      when that is as safe as an acknowledged message, the progress says so; `flush` saves it each second

Never early: a strip is taken when its end has come. Never lost: the progress follows the deliveries. Never twice:
a start asks the log which records behind the saved progress were delivered (`delivered_marks`) or are on the wheel
(`TimerFiles.placed_since`), and passes them over. A clean stop leaves in a half-delivered slot only what waits, so
that Java, which knows no marks, delivers the rest and nothing twice.

Mirrors: TimerMessageStore.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from cometmq.broker.delivered_marks import TIMER_SOURCE, delivered_since
from cometmq.broker.durability import Durability
from cometmq.broker.inner_messages import InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.timer.delivery import Ready, load_records, make_ready, time_property, waiting_record
from cometmq.broker.timer.metrics import TimerMetrics
from cometmq.broker.timer.open_slots import Due, OpenSlot, Strip
from cometmq.broker.timer.stage import deliver_time_ms
from cometmq.clock import Clock
from cometmq.errors import MessageRefused, RequestRefused, StoreError
from cometmq.model import properties
from cometmq.model.java_hash import string_hash
from cometmq.model.names import TIMER_TOPIC
from cometmq.store.dispatch import Arrival
from cometmq.store.engine import Store
from cometmq.store.timer_files import TimerFiles
from cometmq.store.timer_log import DELETE, ROLL
from cometmq.store.timer_wheel import HALF_SLOTS
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.timer")

CHUNK: Final = 200  # messages made ready or delivered between two pauses
READY_BYTES_MAX: Final = 128 << 20
OPEN_AHEAD_SLOTS: Final = 5  # ticks before its time at which a slot is opened, to be made ready
READ_COUNT: Final = 512
IDLE_S_MAX: Final = 1.0
AFTER_FAULT_S: Final = 0.5
BLANK_SLOTS: Final = 60
SAVE_EVERY_MS: Final = 10_000  # the progress, when nothing waits and nothing came
_QUEUE_ID: Final = 0


class Progress(NamedTuple):
    """Slots before `read_time_ms` and messages before `queue_offset` are done; later deliveries stand behind
    `scan_offset` of the log."""

    read_time_ms: int
    queue_offset: int
    scan_offset: int


class TimerService:
    """The timer of one broker."""

    def __init__(
        self,
        files: TimerFiles,
        store: Store,
        messages: InnerMessages,
        reader: InnerReader,
        durability: Durability,
        metrics: TimerMetrics,
        clock: Clock,
        *,
        pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
    ) -> None:
        self._files = files
        self._store = store
        self._messages = messages
        self._reader = reader
        self._durability = durability
        self._metrics = metrics
        self._clock = clock
        self._pause = pause
        config = store.config
        self._precision_ms = files.precision_ms
        self._keys_with_topic = config.append_topic_for_timer_delete_key
        window = config.timer_roll_window_slot
        if not 2 <= window <= HALF_SLOTS - BLANK_SLOTS:
            window = HALF_SLOTS - BLANK_SLOTS
        self._window_slots = window
        self._open: dict[int, OpenSlot] = {}
        self._slot_heap: list[int] = []
        self._slots_known: set[int] = set()
        # (slot, key) → when to forget it: recalls that may still be on their way to the wheel.
        self._recalled: dict[tuple[int, str], int] = {}
        self._ready_bytes = 0  # stored size of what is ready
        self._write_time_ms = 0
        self._enqueued_until_ms = 0  # what was stored before is on the wheel
        self._last_end = 0  # of what was delivered
        self._safe_end = 0
        self._outstanding = 0  # promises of durability that are not settled
        self._settled = asyncio.Event()
        self._settled.set()
        self._changed = False  # since the last flush
        self._arrived = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._saved_at_ms = 0
        self._recover()

    # Starting and stopping

    def _recover(self) -> None:
        checkpoint, store = self._files.checkpoint, self._store
        now_ms = self._clock.now_ms()
        tick_ms = self._tick(now_ms)
        first_ms = checkpoint.read_time_ms or tick_ms - (HALF_SLOTS - BLANK_SLOTS) * self._precision_ms
        self._slot_heap = self._files.wheel.times(first_ms)
        self._slots_known = set(self._slot_heap)
        low, high = store.min_offset(TIMER_TOPIC, _QUEUE_ID), store.max_offset(TIMER_TOPIC, _QUEUE_ID)
        self.queue_offset = min(max(checkpoint.queue_offset, low), high)
        self._recovered_offset = high
        found = store.read(TIMER_TOPIC, _QUEUE_ID, self.queue_offset, 1).ranges
        self._placed = self._files.placed_since(found[0][0]) if found else set()
        self._delivered: set[int] = set()
        if checkpoint.scan_offset is not None:
            marks = delivered_since(store, checkpoint.scan_offset, TIMER_SOURCE)
            self._delivered = {mark.physical_offset for mark in marks}
        self._recovered_until_ms = tick_ms + self._precision_ms
        read_time_ms = min(self._slot_heap[0] if self._slot_heap else tick_ms, tick_ms)
        scan_offset = checkpoint.scan_offset if checkpoint.scan_offset is not None else store.written_offset
        self.progress = Progress(read_time_ms, self.queue_offset, scan_offset)
        self._write_time_ms = tick_ms
        if checkpoint.scan_offset is None:  # from here on a kill must find where to look for marks
            self._prepare_flush()()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="timer")

    async def close(self) -> None:
        """End after the chunk under way, and leave files from which either broker goes on without a repeat."""
        self._closing = True
        self._arrived.set()
        if self._task is not None:
            await self._task
        await self._settled.wait()
        if self._safe_end < self._last_end:
            return  # what was delivered is not known to be safe: as after a kill, the marks will tell
        for slot in self._open.values():
            self._leave(slot)
        self._files.write()
        self.progress = self._progress(self._clock.now_ms())
        await self.flush(thorough=True)

    def _leave(self, slot: OpenSlot) -> None:
        """Let the files hold of an opened slot only what still waits."""
        unit_at = self._files.log.unit_at
        if slot.delivered_pos is not None and (delivered := unit_at(slot.delivered_pos)) is not None:
            units = [unit for pos in slot.waiting() if (unit := unit_at(pos)) is not None]
            self._files.replace(slot.slot_ms, max(self._write_time_ms, slot.slot_ms), units, delivered)
        slot.began_at = None

    async def _run(self) -> None:
        while not self._closing:
            try:
                await self.turn()
                await self.make_ready_ahead()
                wait_s = self._wait_s()
            except (StoreError, OSError) as fault:
                log.warning("timer: %s; it goes on in %g s", fault, AFTER_FAULT_S)
                wait_s = AFTER_FAULT_S
            except Exception:
                log.exception("the timer stumbled; it goes on in %g s", AFTER_FAULT_S)
                wait_s = AFTER_FAULT_S
            try:
                async with asyncio.timeout(wait_s):
                    await self._arrived.wait()
            except TimeoutError:
                pass
            self._arrived.clear()

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Some queues have grown."""
        if self._store.max_offset(TIMER_TOPIC, _QUEUE_ID) > self.queue_offset:
            self._arrived.set()

    def _next_ms(self) -> int:
        """When there is something to do next; -1 if nothing waits."""
        times = [slot.next_ms() for slot in self._open.values()]
        if self._slot_heap:
            times.append(self._slot_heap[0] - OPEN_AHEAD_SLOTS * self._precision_ms)
        return min(times, default=-1)

    def _wait_s(self) -> float:
        next_ms = self._next_ms()
        if next_ms < 0:
            return IDLE_S_MAX
        return min(max((next_ms - self._clock.now_ms()) / 1000, 0.001), IDLE_S_MAX)

    # One turn

    async def turn(self) -> None:
        """Enqueue, open, deliver, commit: everything that is due now."""
        old_ms = self._write_time_ms - (HALF_SLOTS - BLANK_SLOTS) * self._precision_ms
        if self._slot_heap and self._slot_heap[0] < old_ms:
            await self._open_until(old_ms)  # first, for what comes may need these slots of the wheel
            await self._deliver()
        await self._enqueue()
        await self._open_until(self._clock.now_ms() + OPEN_AHEAD_SLOTS * self._precision_ms)
        await self._deliver()
        self._commit()

    def _tick(self, time_ms: int) -> int:
        return time_ms - time_ms % self._precision_ms

    async def _enqueue(self) -> None:
        began_ms, target = self._clock.now_ms(), self._store.max_offset(TIMER_TOPIC, _QUEUE_ID)
        while self.queue_offset < target and not self._closing:
            found = await self._reader.read(TIMER_TOPIC, _QUEUE_ID, self.queue_offset, READ_COUNT)
            if found.next_offset <= self.queue_offset:
                return
            self._write_time_ms = max(self._write_time_ms, self._tick(self._clock.now_ms()))
            for record in found.records:
                if record.physical_offset not in self._placed:
                    self._place(record)
            self._files.write()
            self.queue_offset = found.next_offset
            if self.queue_offset >= self._recovered_offset:
                self._placed.clear()
            await self._pause()
        if self.queue_offset >= target:
            self._enqueued_until_ms = began_ms

    def _place(self, record: Record) -> None:
        found = record.properties
        try:
            out_ms = int(found[properties.TIMER_OUT_MS])
            real_topic = found[properties.REAL_TOPIC]
        except (KeyError, ValueError):
            log.warning("the record at %d of the log is in the timer topic, but has no time", record.physical_offset)
            return
        write_ms, window_ms = self._write_time_ms, self._window_slots * self._precision_ms
        slot_ms, magic = max(self._tick(out_ms), write_ms), 1
        if slot_ms - write_ms >= window_ms:
            magic |= ROLL
            over_ms = slot_ms - write_ms - window_ms
            short = over_ms < self._window_slots // 3 * self._precision_ms  # leave enough for the next time
            slot_ms = write_ms + (self._window_slots // 2 * self._precision_ms if short else window_ms)
        recalls = found.get(properties.TIMER_DEL_UNIQKEY)
        if recalls is not None:
            magic |= DELETE
            self.recall(recalls, out_ms)  # if it is late, it comes to another slot than what it recalls
        due_ms = 0
        if not magic & ROLL:
            due_ms = min(deliver_time_ms(found, record.store_time_ms) or 0, slot_ms + self._precision_ms)
        offset, size = record.physical_offset, record.size
        self._changed = True
        pos = self._files.place(slot_ms, write_ms, magic, offset, size, string_hash(real_topic), due_ms)
        self._metrics.add(real_topic, -1 if recalls is not None else 1, self._clock.now_ms())
        slot = self._open.get(slot_ms)
        if slot is None:
            if slot_ms not in self._slots_known:
                self._slots_known.add(slot_ms)
                heapq.heappush(self._slot_heap, slot_ms)
        elif recalls is not None and not magic & ROLL:
            slot.markers.append(pos)
            slot.recalled.add(recalls)
        else:
            slot.add(due_ms, Due(pos, magic, offset, size, write_ms))

    def recall(self, key: str, slot_ms: int) -> None:
        """A mark of recall was stored for a slot; one that is about to open cannot wait until it is read back."""
        now_ms = self._clock.now_ms()
        if slot_ms <= now_ms + 2 * self._precision_ms:
            self._recalled[slot_ms, key] = max(slot_ms, now_ms) + BLANK_SLOTS * self._precision_ms

    async def _open_until(self, time_ms: int) -> None:
        loop = asyncio.get_running_loop()
        while self._slot_heap and self._slot_heap[0] <= time_ms:
            slot_ms = self._slot_heap[0]
            found = self._files.wheel.slot(slot_ms)
            units = await loop.run_in_executor(None, self._files.log.units, found.last_pos) if found else []
            slot = OpenSlot(slot_ms, self._precision_ms)
            markers = []
            for pos, unit in units:
                if unit.magic & DELETE and not unit.magic & ROLL:
                    slot.markers.append(pos)
                    markers.append((unit.offset, unit.size))
                else:
                    due = Due(pos, unit.magic, unit.offset, unit.size, unit.write_time_ms)
                    slot.add(unit.due_ms, due)
            for record in await self._records(markers):
                recalls = None if record is None else record.properties.get(properties.TIMER_DEL_UNIQKEY)
                if record is not None and recalls is not None:
                    slot.recalled.add(recalls)
                    self.recall(recalls, int(record.properties[properties.TIMER_OUT_MS]))  # late, it is in another slot
            heapq.heappop(self._slot_heap)
            self._slots_known.discard(slot_ms)
            self._open[slot_ms] = slot

    async def _records(self, ranges: list[tuple[int, int]]) -> list[Record | None]:
        if not ranges:
            return []
        segment_size = self._store.config.mapped_file_size_commit_log
        pieces = await load_records(self._store.load, ranges, segment_size)
        return [waiting_record(piece, offset) for piece, (offset, _) in zip(pieces, ranges, strict=True)]

    async def _deliver(self) -> None:
        for slot_ms in sorted(self._open):
            slot = self._open[slot_ms]
            for strip in slot.due(self._clock.now_ms()):
                while strip and not self._closing:
                    if not strip.ready:
                        await self._make_ready(strip)
                    self._deliver_ready(slot, strip.ready)
                    await self._pause()
        self._forget_done()

    def _forget_done(self) -> None:
        """The oldest slots that are empty, and stay so; none before an older one, for the progress is one time."""
        now_ms = self._clock.now_ms()
        for slot_ms in sorted(self._open):
            slot = self._open[slot_ms]
            if not slot.done(now_ms) or self._write_time_ms < slot.end_ms:
                return
            del self._open[slot_ms]

    async def make_ready_ahead(self) -> None:
        """Use the time before the next is due: what is ready is stored at once when its time has come."""
        for slot_ms in sorted(self._open):
            for strip in self._open[slot_ms].strips.values():
                while strip.waiting:
                    full = self._ready_bytes >= READY_BYTES_MAX
                    if full or self._closing or self._arrived.is_set() or self._next_ms() <= self._clock.now_ms():
                        return
                    await self._make_ready(strip)
                    await self._pause()

    async def _make_ready(self, strip: Strip) -> None:
        dues = strip.first(CHUNK)
        records = await self._records([(due.offset, due.size) for due in dues])
        ready: list[Ready] = []
        for due, record in zip(dues, records, strict=True):
            if record is None or due.offset in self._delivered:
                continue
            roll = bool(due.magic & ROLL)
            one = make_ready(record, due.pos, due.write_time_ms, roll=roll, with_topic=self._keys_with_topic)
            if one is None:
                log.warning("the record at %d of the log does not say where it is to be delivered", due.offset)
                continue
            self._ready_bytes += one.size
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
                    self.recall(one.recalls, one.out_ms)  # rolled late, it may come too late to the wheel
                elif one.key in slot.recalled or (one.out_ms, one.key) in self._recalled:
                    self._drop_first(slot, ready)
                    continue
                try:
                    message = one.message
                    if one.staged:
                        message.properties[properties.TIMER_DEQUEUE_MS] = str(now_ms)
                        placed = self._messages.put(message)
                    else:
                        data = one.properties_data + last_property
                        placed = append(message.topic, message.queue_id, message.body, data, *one.rest)
                    self._last_end = placed.physical_offset + placed.size
                except (MessageRefused, RequestRefused) as refused:
                    log.warning("a message for %s could not be delivered and is dropped: %s", one.topic, refused)
                counts[one.topic] += 1 if one.recalls is not None else -1
                self._drop_first(slot, ready)
        finally:
            self._durability.end_turn_soon()
            for topic, count in counts.items():
                self._metrics.add(topic, count, now_ms)

    def _drop_first(self, slot: OpenSlot, ready: deque[Ready]) -> None:
        done = ready.popleft()
        self._ready_bytes -= done.size
        slot.delivered_pos, self._changed = done.pos, True

    # Progress

    def _progress(self, now_ms: int) -> Progress:
        unfinished = self._open.values()
        read_time_ms = min([slot.slot_ms for slot in unfinished], default=self._tick(now_ms))
        if self._slot_heap:
            read_time_ms = min(read_time_ms, self._slot_heap[0])
        scan_offset = min(
            [slot.began_at for slot in unfinished if slot.began_at is not None], default=self._store.written_offset
        )
        if self._delivered:
            scan_offset = min(scan_offset, self.progress.scan_offset)  # these marks are still needed
        return Progress(min(read_time_ms, self._tick(now_ms)), self.queue_offset, scan_offset)

    def _commit(self) -> None:
        now_ms = self._clock.now_ms()
        self._write_time_ms = max(self._write_time_ms, self._tick(now_ms))
        progress = self._progress(now_ms)
        if self._recalled:
            self._recalled = {name: until for name, until in self._recalled.items() if until >= now_ms}
        if self._delivered and progress.read_time_ms >= self._recovered_until_ms:
            self._delivered.clear()

        if not self._outstanding and self._last_end <= self._safe_end:
            self.progress = progress
            return
        end = self._last_end

        def settle(fault: BaseException | None) -> None:
            self._outstanding -= 1
            if not self._outstanding:
                self._settled.set()
            if fault is None:
                self._safe_end = end
                self.progress = progress

        self._outstanding += 1
        self._settled.clear()
        self._durability.when_safe(end, settle)

    async def flush(self, *, thorough: bool = False) -> None:
        """Save the progress if it is worth it: files first, then the checkpoint that relies on them."""
        now_ms = self._clock.now_ms()
        if not (thorough or self._changed or now_ms - self._saved_at_ms >= SAVE_EVERY_MS):
            return
        self._changed, self._saved_at_ms = False, now_ms
        await asyncio.get_running_loop().run_in_executor(None, self._prepare_flush())

    def _prepare_flush(self) -> Callable[[], None]:
        progress, checkpoint = self.progress, self._files.checkpoint
        if (progress.read_time_ms, progress.queue_offset) != (checkpoint.read_time_ms, checkpoint.queue_offset):
            checkpoint.timestamp_ms = self._clock.now_ms()
            checkpoint.counter += 1
        checkpoint.read_time_ms, checkpoint.queue_offset, checkpoint.scan_offset = progress
        checkpoint.master_queue_offset = progress.queue_offset
        return self._files.prepare_flush()

    async def delete_expired(self) -> None:
        """Remove log files of which every message has left the CommitLog."""
        before_ms = self.progress.read_time_ms - (self._window_slots + BLANK_SLOTS) * self._precision_ms
        gone = self._files.delete_before(self._store.min_physical_offset, before_ms)
        if gone:
            await asyncio.get_running_loop().run_in_executor(None, self._files.remove, gone)

    # For others

    def is_late(self) -> bool:
        """Whether something may be undelivered that was due a tick ago: unread in the timer topic, or in a slot."""
        before_ms = self._clock.now_ms() - self._precision_ms
        if self._enqueued_until_ms < before_ms and self._store.max_offset(TIMER_TOPIC, _QUEUE_ID) > self.queue_offset:
            return True
        if self._slot_heap and self._slot_heap[0] < before_ms - self._precision_ms:
            return True
        return any(slot.next_ms() < before_ms for slot in self._open.values())

    def waiting_at(self, slot_ms: int) -> int:
        """How many messages wait in a slot."""
        return self._files.number_at(slot_ms)

    def checkpoint_bytes(self) -> bytes:
        """What GET_TIMER_CHECK_POINT is told."""
        return self._files.checkpoint.pack()
