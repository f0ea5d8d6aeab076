"""Out of the schedule topic: what is due goes where it was sent to.

One task serves all levels. It looks at the head of each level's queue, delivers in batches what is due, and sleeps
until the next head is; a message for a level that had none wakes it. Within a level messages are due in the order in
which they came, so nothing else has to be looked at.

A message is due at the time that its queue unit holds, or, if the clock was set back since, when it has been at the
head for as long as its level waits: never early, and never stuck. It keeps all its properties, the level too, and gets
a mark (`delivered_marks`), by which a start after a kill knows what is delivered beyond the saved progress.

A message that the store refuses stops its level until the store takes it; one that names no topic is skipped.

Mirrors: ScheduleMessageService.DeliverDelayedMessageTimerTask.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from cometmq.broker.delay.progress import DelayOffsets
from cometmq.broker.delivered_marks import DELAY_SOURCE, Mark, delivered_since, put_mark
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.clock import Clock
from cometmq.errors import MessageRefused, StoreNotWritable
from cometmq.model import properties
from cometmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from cometmq.store.append import Appended
from cometmq.store.dispatch import Arrival
from cometmq.store.engine import Store
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.broker")

BATCH_COUNT_MAX: Final = 32
TURN_BATCHES_MAX: Final = 16  # then requests have their turn; many enough to keep pace with producers
SLEEP_MS_MAX: Final = 500  # the clock may be set forward while we sleep
RETRY_MS: Final = 1_000  # after the store has refused a message


class Level:
    """One delay level. `noticed_ms`: since when (monotonic) its head waits; None without a head."""

    __slots__ = ("delay_ms", "delivered", "noticed_ms", "number", "offset")

    def __init__(self, number: int, delay_ms: int, offset: int) -> None:
        self.number = number
        self.delay_ms = delay_ms
        self.offset = offset  # of the head
        self.noticed_ms: int | None = None
        self.delivered: dict[int, int] = {}  # queue offset → physical offset of what a killed process delivered

    @property
    def queue_id(self) -> int:
        return self.number - 1


class DelayedDeliveries:
    """Delivers delayed messages when they are due."""

    def __init__(
        self,
        delays_ms: Sequence[int],
        store: Store,
        messages: InnerMessages,
        reader: InnerReader,
        progress: DelayOffsets,
        clock: Clock,
    ) -> None:
        self._store = store
        self._messages = messages
        self._reader = reader
        self._progress = progress
        self._clock = clock
        self._levels = [
            Level(number, delay_ms, progress.current.get(number, 0))
            for number, delay_ms in enumerate(delays_ms, start=1)
        ]
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        for level in self._levels:
            self._correct(level)
        self._recall_deliveries()

    # --- starting and stopping

    def _correct(self, level: Level) -> bool:
        """Move a head that is not in the queue, because messages expired or a table is older than its store."""
        low = self._store.min_offset(SCHEDULE_TOPIC, level.queue_id)
        high = self._store.max_offset(SCHEDULE_TOPIC, level.queue_id)
        offset = min(max(level.offset, low), high)
        if offset == level.offset:
            return False
        log.warning("delay level %d goes on at offset %d instead of %d", level.number, offset, level.offset)
        level.offset = offset
        self._progress.advance(level.number, offset)
        return True

    def _recall_deliveries(self) -> None:
        """What was delivered after the progress was saved is not delivered again.

        Without a saved place in the log the last writer was Java, which leaves no marks.
        """
        before = self._progress.delivered_before
        if before is not None:
            heads = {level.queue_id: level for level in self._levels}
            for mark in delivered_since(self._store, before, DELAY_SOURCE):
                level = heads.get(mark.queue_id)
                if level is not None and mark.queue_offset >= level.offset:
                    level.delivered[mark.queue_offset] = mark.physical_offset
            if any(level.delivered for level in self._levels):
                self._progress.hold_at = before
        self._progress.mark()
        self._progress.persist()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="delay levels")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Queues have grown; only a level without a head is news."""
        for topic, queue_id, _ in arrivals:
            if topic == SCHEDULE_TOPIC and queue_id < len(self._levels) and self._levels[queue_id].noticed_ms is None:
                self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                pause_ms = await self.deliver_due()
            except Exception:
                log.exception("delivering delayed messages failed; it goes on in %d ms", RETRY_MS)
                pause_ms = RETRY_MS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if pause_ms is None else pause_ms / 1000):
                    await self._wake.wait()

    # --- delivering

    async def deliver_due(self) -> int | None:
        """Deliver everything that is due; how long nothing more will be, None if nothing waits."""
        pauses_ms: dict[Level, int | None] = dict.fromkeys(self._levels, 0)
        batches = 0
        while 0 in pauses_ms.values():
            # A batch of each level in turn, so that none waits for another that has much to deliver.
            for level, before_ms in pauses_ms.items():
                if before_ms != RETRY_MS:
                    pauses_ms[level] = pause_ms = await self._deliver_batch(level)
                    batches += pause_ms == 0
                    if batches >= TURN_BATCHES_MAX:
                        batches = 0
                        await asyncio.sleep(0)  # the others' turn
        if self._progress.hold_at is not None and not any(level.delivered for level in self._levels):
            self._progress.hold_at = None
        waiting_ms = [pause_ms for pause_ms in pauses_ms.values() if pause_ms is not None]
        return min([*waiting_ms, SLEEP_MS_MAX]) if waiting_ms else None

    async def _deliver_batch(self, level: Level) -> int | None:
        """Deliver what is due, up to a batch: 0 if something was, else how long nothing will be, or None."""
        count, pause_ms = self._due(level)
        if not count:
            return pause_ms
        found = await self._reader.read(SCHEDULE_TOPIC, level.queue_id, level.offset, count)
        try:
            self._deliver(level, found.records, max(found.next_offset, level.offset + 1))
        except (MessageRefused, StoreNotWritable) as refused:
            log.error("delay level %d waits: %s", level.number, refused)
            return RETRY_MS
        return 0

    def _due(self, level: Level) -> tuple[int, int | None]:
        """How many messages from the head on are due, and, if none is, how long the head still waits."""
        due_times_ms = self._store.unit_codes(SCHEDULE_TOPIC, level.queue_id, level.offset, BATCH_COUNT_MAX)
        if not due_times_ms:
            level.noticed_ms = None
            if self._correct(level):
                return self._due(level)
            return 0, None
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        if level.noticed_ms is None:
            level.noticed_ms = monotonic_ms
            if self._progress.current.get(level.number) != level.offset:
                self._progress.advance(level.number, level.offset)
        count = 0
        for due_ms in due_times_ms:
            if due_ms > now_ms:
                break
            count += 1
        if count:
            return count, None
        pause_ms = min(due_times_ms[0] - now_ms, level.noticed_ms + level.delay_ms - monotonic_ms)
        return (1, None) if pause_ms <= 0 else (0, pause_ms)

    def _deliver(self, level: Level, records: list[Record], next_offset: int) -> None:
        first: Appended | None = None
        last: Appended | None = None
        try:
            for record in records:
                if level.delivered.pop(record.queue_offset, None) != record.physical_offset:
                    last = self._put(level, record) or last
                    first = first or last
                level.offset = record.queue_offset + 1
            level.offset = next_offset
            level.noticed_ms = None
            level.delivered = {at: place for at, place in level.delivered.items() if at >= next_offset}
        finally:
            if first is not None and last is not None:
                end = last.physical_offset + last.size
                self._progress.advance(level.number, level.offset, first.physical_offset, end)
            else:
                self._progress.advance(level.number, level.offset)

    def _put(self, level: Level, record: Record) -> Appended | None:
        message = InnerMessage.of(record)
        found = message.properties
        topic, queue_id = found.get(properties.REAL_TOPIC, ""), found.get(properties.REAL_QUEUE_ID, "")
        if not topic or not queue_id.isdecimal() or topic in (HALF_TOPIC, SCHEDULE_TOPIC):
            log.error(
                "the delayed message at offset %d of level %d cannot be delivered to %r/%r and is skipped",
                record.queue_offset, level.number, topic, queue_id,
            )  # fmt: skip
            return None
        message.topic, message.queue_id = topic, int(queue_id)
        message.prepared_offset = 0
        message.due = True
        put_mark(message.properties, Mark(DELAY_SOURCE, level.queue_id, record.queue_offset, record.physical_offset))
        try:
            return self._messages.put(message)
        except MessageRefused:
            found.pop(properties.DELIVERED_MARK)  # a few bytes too many: better delivered twice than not at all
            return self._messages.put(message)
