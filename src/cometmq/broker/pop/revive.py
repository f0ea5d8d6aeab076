"""Bringing back what was handed out and not acknowledged in time: one reader for each revive queue.

A revive queue holds, in time's order, checkpoints and the acknowledgements that follow them (`revive_log`). The reader
keeps the checkpoints it has met and marks in them what is acknowledged. Once it has read two seconds further than a
checkpoint's messages were due, no acknowledgement can come any more that counts: what is still open is stored again,
in the group's retry topic, and the reader's offset moves. The offset is that of the last checkpoint settled so; it is
kept as that of the group `CID_RMQ_SYS_REVIVE_GROUP`, and reading starts behind it.

Time is what the messages say (`TIMER_DELIVER_MS`), so a timer that is late makes nobody's message come back twice;
only a queue in which nothing comes, while the timer is not late and has not been for a while, follows the clock.

A checkpoint may be of another broker: a slave that acted for it has sent it here. Its messages are then read from that
broker; while nobody there answers, or its topic is not here, it is put back for later. What stands at those offsets
here is something else.
Bounds: `PENDING_MAX` checkpoints in memory, shared out evenly to the readers of a broker, some 450 bytes each. Who has
its share looks only for acknowledgements from there on, and reads the rest again later (`window`): the bound changes
what is read, never what comes back.

Mirrors: PopReviveService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from cometmq.broker.groups import Groups
from cometmq.broker.inner_reader import InnerRead, InnerReader
from cometmq.broker.offsets import Offsets
from cometmq.broker.pop.checkpoint import ACK_TAG, BATCH_ACK_TAG, CK_TAG, Ack, CheckPoint
from cometmq.broker.pop.inflight import Inflight
from cometmq.broker.pop.retry_messages import RetryMessages
from cometmq.broker.pop.retry_topic import REVIVE_GROUP, normal_topic
from cometmq.broker.pop.window import Window
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.errors import CometError, PeerError, PeerUnreachable, ProtocolError
from cometmq.model import properties
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.broker")

LATE_ACKS_MS: Final = 2_000  # acknowledgements that come so much later still count
QUIET_MS: Final = 3_000  # a queue so quiet follows the clock
PENDING_MAX: Final = 100_000  # of all revive queues of a broker
READ_COUNT: Final = 32
SAFE_EVERY: Final = 64  # checkpoints and messages between two moves of the offset, each of which gives others a turn
BUSY_PAUSE_S: Final = 0.1

ReadElsewhere = Callable[[str, str, int, int, int], Awaitable[InnerRead]]  # broker, topic, queue, offset, count


class Reviver:
    """Reads one revive queue."""

    def __init__(
        self,
        topic: str,
        queue_id: int,
        broker_name: str,
        reader: InnerReader,
        read_elsewhere: ReadElsewhere,
        retry_messages: RetryMessages,
        inflight: Inflight,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        clock: Clock,
        *,
        interval_ms: int,
        pending_max: int,
        timer_is_late: Callable[[], bool],
        end_of: Callable[[str, int], int],
    ) -> None:
        self._topic = topic
        self._queue_id = queue_id
        self._broker_name = broker_name
        self._reader = reader
        self._read_elsewhere = read_elsewhere
        self._retry_messages = retry_messages
        self._inflight = inflight
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._timer_is_late = timer_is_late
        self._end_of = end_of  # of a queue, with what is stored and not visible yet
        settled = offsets.query(REVIVE_GROUP, topic, queue_id)
        self._next_offset = 0 if settled is None else settled + 1
        self._window = Window(pending_max)
        self._read_until_ms = 0  # deliver time of the latest message read
        self._late_ms = clock.now_ms()  # the timer was late then, or was just started

    @property
    def pending_count(self) -> int:
        return len(self._window)

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(BUSY_PAUSE_S if self._window else self._interval_s)
            try:
                await self.round()
            except CometError as fault:
                log.warning("revive queue %d waits: %s", self._queue_id, fault)
                await asyncio.sleep(self._interval_s)
            except Exception:
                log.exception("revive queue %d failed; it goes on in %g s", self._queue_id, self._interval_s)
                await asyncio.sleep(self._interval_s)

    async def round(self) -> None:
        """Read what there is and revive what is due, until those held have to wait."""
        await self._round()
        while not self._window and self._window.left_out is not None:
            await self._round()

    async def _round(self) -> None:
        while await self._read():
            await self._revive_due()
            await asyncio.sleep(0)  # a long queue must not keep the others from their turn
        now_ms = self._clock.now_ms()
        if self._timer_is_late():
            self._late_ms = now_ms
        if self._window and now_ms - max(self._read_until_ms, self._late_ms) > QUIET_MS and self._is_at_the_end():
            self._read_until_ms = now_ms
        await self._revive_due()

    def _is_at_the_end(self) -> bool:
        """Whether everything is read that was stored for this queue, visible or not."""
        return self._end_of(self._topic, self._queue_id) <= self._next_offset

    # --- reading

    async def _read(self) -> bool:
        """Read on; False when there is nothing more."""
        if not self._window and self._window.left_out is not None:
            self._go_back(self._window.left_out)
        found = await self._reader.read(self._topic, self._queue_id, self._next_offset, READ_COUNT)
        self._next_offset = found.next_offset
        for record in found.records:
            try:
                self._take(record)
            except ProtocolError as broken:
                log.warning("message %d of revive queue %d: %s", record.queue_offset, self._queue_id, broken)
        return bool(found.records)

    def _go_back(self, offset: int) -> None:
        """All that were held are settled: on with those that had no room."""
        self._next_offset = offset
        if self._window.met_stranger:
            self._read_until_ms = 0  # what was read behind these counts for them when it is read again
        self._window.reopen()

    def _take(self, record: Record) -> None:
        found = record.properties
        tag = found.get(properties.TAGS)
        if tag == CK_TAG:
            point = CheckPoint.from_body(record.body)
            if point is None:
                return
            point.revive_offset = record.queue_offset
            self._window.take(point)
        elif tag in (ACK_TAG, BATCH_ACK_TAG):
            self._window.acknowledge(Ack.from_body(record.body, self._broker_name, batch=tag == BATCH_ACK_TAG))
        deliver_ms = found.get(properties.TIMER_DELIVER_MS, "")
        if deliver_ms.isdecimal():
            self._read_until_ms = max(self._read_until_ms, int(deliver_ms))

    # --- reviving

    async def _revive_due(self) -> None:
        settled, count = -1, 0
        for point in self._due():
            count += 1 + await self._revive(point)
            self._window.settle(point)
            settled = point.revive_offset
            if count >= SAFE_EVERY:
                count = 0
                await self._settle(settled)
        if settled >= 0:
            await self._settle(settled)

    def _due(self) -> Iterator[CheckPoint]:
        while (first := self._window.first) is not None:
            if self._read_until_ms - first.revive_time_ms <= LATE_ACKS_MS:
                return
            yield first

    async def _revive(self, point: CheckPoint) -> int:
        """Store what is open once more, and say how many; if this is cut short, the rest is stored by the next try."""
        open_offsets = point.open_offsets()
        if not open_offsets:
            return 0
        is_ours = not point.broker_name or point.broker_name == self._broker_name
        is_known = normal_topic(point.topic, point.group) in self._topics and self._groups.find(point.group) is not None
        if is_ours and not is_known:
            return 0
        try:
            if not is_known:
                raise PeerUnreachable(f"it is of {point.broker_name}; its topic or the group {point.group} is not here")
            await self._store_again(point, open_offsets, is_ours=is_ours)
        except PeerError as fault:
            self._retry_messages.put_again_later(point, point.open_offsets(), fault)
        if is_ours:
            self._inflight.done(point.topic, point.group, point.queue_id, point.pop_time_ms, len(open_offsets))
        return len(open_offsets)

    async def _store_again(self, point: CheckPoint, open_offsets: list[int], *, is_ours: bool) -> None:
        read = self._reader.read if is_ours else partial(self._read_elsewhere, str(point.broker_name))
        for first, count in runs(open_offsets):
            at, end = first, first + count
            while at < end:
                found = await read(point.topic, point.queue_id, at, end - at)
                for record in found.records:
                    self._retry_messages.put(point, record)
                    point.acknowledge(record.queue_offset)
                if not found.records:
                    log.warning("%s queue %d: message %d is gone, not revived", point.topic, point.queue_id, at)
                at = max(found.next_offset, at + 1) if found.records or not is_ours else at + 1

    async def _settle(self, revive_offset: int) -> None:
        await self._retry_messages.safe()
        self._offsets.commit(REVIVE_GROUP, self._topic, self._queue_id, revive_offset)


def runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring offsets as (first, count)."""
    first = last = offsets[0]
    for offset in offsets[1:]:
        if offset != last + 1:
            yield first, last - first + 1
            first = offset
        last = offset
    yield first, last - first + 1
