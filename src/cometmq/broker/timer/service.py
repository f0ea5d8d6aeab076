"""Messages that wait for their time: from the timer topic onto the wheel, and off it where they belong.

One task, one turn after the other:

    enqueue     what came to the timer topic gets its unit and its slot; times beyond the window are rolled there
    open        slots of the next ticks come into memory (`open_slots`)
    deliver     what is due is stored in its real topic, in chunks with a pause between, so that others get their turn;
                in the time before, it is made ready, so that many can be due in one moment
    commit      when that is as safe as an acknowledged message, the progress says so; `flush` saves it each second

Never early: a strip is taken when its end has come. Never lost: the progress follows the deliveries, and what is placed
later goes behind it; neither falls if the clock is set back, so all wait until it is where it was. Never twice: a start
asks the log which records behind the saved progress were delivered (`delivered_marks`) or are on the wheel
(`TimerFiles.placed_since`), and passes them over. A clean stop leaves in a half-delivered slot only what waits, so
that Java, which knows no marks, delivers the rest and nothing twice.

Mirrors: TimerMessageStore.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from cometmq.broker.durability import Durability
from cometmq.broker.inner_messages import InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.timer.dequeue import Dequeue
from cometmq.broker.timer.elsewhere import Elsewhere
from cometmq.broker.timer.enqueue import BLANK_SLOTS, WINDOW_SLOTS_MAX, Enqueue
from cometmq.broker.timer.metrics import TimerMetrics
from cometmq.broker.timer.slots import OPEN_AHEAD, Slots
from cometmq.clock import Clock
from cometmq.errors import StoreError
from cometmq.store.dispatch import Arrival
from cometmq.store.engine import Store
from cometmq.store.timer_checkpoint import read_checkpoint
from cometmq.store.timer_files import TimerFiles

log = logging.getLogger("cometmq.timer")

IDLE_S_MAX: Final = 1.0
AFTER_FAULT_S: Final = 0.5
SAVE_EVERY_MS: Final = 10_000  # the progress, when nothing waits and nothing came


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
        self._durability = durability
        self._clock = clock
        checkpoint, now_ms = files.checkpoint, clock.now_ms()
        half_ms = WINDOW_SLOTS_MAX * files.precision_ms
        times = files.wheel.times(checkpoint.read_time_ms or now_ms - now_ms % files.precision_ms - half_ms)
        self._slots = Slots(clock, files.precision_ms, times, checkpoint.read_time_ms)
        self._enqueue = Enqueue(files, store, reader, metrics, self._slots, clock, pause)
        self._dequeue = Dequeue(files, store, messages, durability, metrics, self._slots, clock, pause)
        if checkpoint.master_queue_offset > checkpoint.queue_offset:  # this broker was a slave
            self._dequeue.elsewhere = Elsewhere(checkpoint.read_time_ms, checkpoint.master_queue_offset)
        self._safe_end = 0  # deliveries before it are as safe as promised
        self._outstanding = 0  # promises of durability that are not settled
        self._settled = asyncio.Event()
        self._settled.set()
        self._arrived = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._saved_at_ms = 0
        scan_offset = store.written_offset if checkpoint.scan_offset is None else checkpoint.scan_offset
        self.progress = Progress(self._slots.unfinished_ms(now_ms), self._enqueue.queue_offset, scan_offset)
        if checkpoint.scan_offset is None:  # from here on a kill must find where to look for marks
            self._prepare_flush()()

    # Starting and stopping

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="timer")

    async def close(self) -> None:
        """End after the chunk under way, and leave files from which either broker goes on without a repeat."""
        self._closing = True
        self._arrived.set()
        if self._task is None:
            return  # a slave's: the files say how far the master is
        await self._task
        await self._settled.wait()
        if self._safe_end < self._dequeue.end:
            return  # what was delivered is not known to be safe: as after a kill, the marks will tell
        for slot in self._slots.in_order():
            self._dequeue.leave(slot, self._enqueue.write_time_ms)
        self._files.write()
        self.progress = self._now_done()
        await self.flush(thorough=True)

    def _stopped(self) -> bool:
        return self._closing

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
        if self._enqueue.behind:
            self._arrived.set()

    def _wait_s(self) -> float:
        next_ms = self._slots.next_ms()
        if next_ms is None:
            return IDLE_S_MAX
        return min(max((next_ms - self._clock.now_ms()) / 1000, 0.001), IDLE_S_MAX)

    # One turn

    async def turn(self) -> None:
        """Enqueue, open, deliver, commit: everything that is due now."""
        slots, precision_ms = self._slots, self._slots.precision_ms
        old_ms = self._enqueue.write_time_ms - WINDOW_SLOTS_MAX * precision_ms
        if slots.next_closed_ms is not None and slots.next_closed_ms < old_ms:
            await self._dequeue.open_until(old_ms)  # first, for what comes may need these slots of the wheel
            await self._dequeue.deliver(self._stopped)
        await self._enqueue.run(self._stopped)
        await self._dequeue.open_until(self._clock.now_ms() + OPEN_AHEAD * precision_ms)
        await self._dequeue.deliver(self._stopped)
        slots.forget_done(self._enqueue.write_time_ms)
        self._commit()

    async def make_ready_ahead(self) -> None:
        """Use the time until something is due, or comes."""
        await self._dequeue.make_ready_ahead(lambda: self._closing or self._arrived.is_set())

    # Progress

    def _now_done(self) -> Progress:
        read_time_ms = self._slots.unfinished_ms(self._clock.now_ms())
        begun = [slot.began_at for slot in self._slots.open.values() if slot.began_at is not None]
        scan_offset = min(begun, default=self._store.written_offset)
        if self._dequeue.recovering:
            scan_offset = min(scan_offset, self.progress.scan_offset)
        return Progress(read_time_ms, self._enqueue.queue_offset, scan_offset)

    def _commit(self) -> None:
        """What is done counts once it is as safe as an acknowledged message."""
        self._enqueue.move_write_time()
        progress, end = self._now_done(), self._dequeue.end
        self._slots.forget_recalls()
        self._dequeue.forget_delivered(progress.read_time_ms)
        if not self._outstanding and end <= self._safe_end:
            self.progress = progress
            return

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
        changed = self._enqueue.changed or self._dequeue.changed
        if not (thorough or changed or now_ms - self._saved_at_ms >= SAVE_EVERY_MS):
            return
        self._enqueue.changed = self._dequeue.changed = False
        self._saved_at_ms = now_ms
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
        window_ms = (self._enqueue.window_slots + BLANK_SLOTS) * self._slots.precision_ms
        gone = self._files.delete_before(self._store.min_physical_offset, self.progress.read_time_ms - window_ms)
        if gone:
            await asyncio.get_running_loop().run_in_executor(None, self._files.remove, gone)

    # For others

    def recall(self, key: str, slot_ms: int) -> None:
        """A mark of recall is stored for a slot."""
        self._slots.recall(key, slot_ms)

    def is_late(self) -> bool:
        """Whether something may be undelivered that was due a tick ago: unread in the timer topic, or in a slot."""
        before_ms = self._clock.now_ms() - self._slots.precision_ms
        return (self._enqueue.until_ms < before_ms and self._enqueue.behind) or self._slots.is_late()

    def behind(self) -> tuple[int, int]:
        """Seconds since the oldest slot that is not delivered was due, and messages that are not on the wheel yet."""
        late_ms = max(self._clock.now_ms() - self.progress.read_time_ms, 0)
        return late_ms // 1000, self._enqueue.max_offset - self._enqueue.queue_offset

    def waiting_at(self, slot_ms: int) -> int:
        """How many messages wait in a slot."""
        return self._files.number_at(slot_ms)

    def take_back(self, data: bytes) -> None:
        """A slave that acted for us says how far it is; what it delivered is not delivered again."""
        read_time_ms, queue_offset = read_checkpoint(data)
        self._dequeue.elsewhere = Elsewhere(read_time_ms, queue_offset)

    def checkpoint_bytes(self, *, whole: bool = False) -> bytes:
        """What GET_TIMER_CHECK_POINT is told; the whole of it is for slaves of our own kind."""
        checkpoint = self._files.checkpoint
        return checkpoint.pack_all() if whole else checkpoint.pack()
