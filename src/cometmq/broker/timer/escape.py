"""Timed messages of a group whose master is gone: the slave that acts for it sends them to another master when due.

A slave has no wheel of its own. When it begins to act, it reads the timer topic, of which it has a copy, and keeps in
memory what was not due when the master was heard last (`read_time_ms`), without what the master has delivered since
(`delivered_marks`), rolled on or taken back. At most `WAITING_MAX` wait so; what is behind them is read when there is
room again. Checkpoints of pop wait for their master, which alone can make use of them.

How far it got, in time and in the timer topic, is told to the master that comes back (`GET_TIMER_CHECK_POINT`): what
stands before both is delivered.

Mirrors: TimerMessageStore on an acting slave.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import Final, NamedTuple

from cometmq.broker.acting.bridge import EscapeBridge
from cometmq.broker.delay.escape import due_message
from cometmq.broker.delivered_marks import TIMER_SOURCE, Mark, delivered_since
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.timer.delivery import delete_key, waiting_record
from cometmq.broker.timer.elsewhere import due_time_ms, stays, was_due_before
from cometmq.clock import Clock
from cometmq.errors import CometError
from cometmq.model import properties
from cometmq.model.names import TIMER_TOPIC
from cometmq.store.engine import Store
from cometmq.store.timer_checkpoint import TimerCheckpoint
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.timer")

QUEUE_ID: Final = 0
READ_COUNT: Final = 256
WAITING_MAX: Final = 500_000
LOOK_EVERY_S: Final = 0.1


class Waiting(NamedTuple):
    """One message, in the order in which they are due."""

    due_ms: int
    offset: int
    size: int
    key: str  # what a recall names it by


class TimerEscape:
    """A duty of an acting slave; `follow` is called with what the master says of its progress."""

    def __init__(
        self,
        checkpoint: TimerCheckpoint,
        store: Store,
        reader: InnerReader,
        bridge: EscapeBridge,
        clock: Clock,
        *,
        keys_with_topic: bool,
    ) -> None:
        self._checkpoint = checkpoint
        self._store = store
        self._reader = reader
        self._bridge = bridge
        self._clock = clock
        self._keys_with_topic = keys_with_topic
        self._next = 0  # offset of the timer topic
        self._waiting: list[Waiting] = []
        self._gone: set[int] = set()  # CommitLog offsets of what was delivered or rolled
        self._escaped: set[int] = set()  # of what we delivered and is not in the progress yet
        self._recalled: set[str] = set()
        self._held_up = ""

    def follow(self, data: bytes) -> None:
        """Be as far as the master is, or as we were in its stead."""
        read_time_ms = self._checkpoint.read_time_ms
        self._checkpoint.follow(data)
        self._checkpoint.read_time_ms = max(self._checkpoint.read_time_ms, read_time_ms)

    async def run(self) -> None:
        self._next = self._store.min_offset(TIMER_TOPIC, QUEUE_ID)
        self._waiting, self._recalled = [], set()
        since = self._checkpoint.scan_offset or 0  # the whole log, if nobody has ever said more
        self._gone = {mark.physical_offset for mark in delivered_since(self._store, since, TIMER_SOURCE)}
        while True:
            await self._read()
            await self._escape_due()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _read(self) -> None:
        """Take in what the timer topic has."""
        end = self._store.max_offset(TIMER_TOPIC, QUEUE_ID)
        while self._next < end and len(self._waiting) < WAITING_MAX:
            found = await self._reader.read(TIMER_TOPIC, QUEUE_ID, self._next, READ_COUNT)
            for record in found.records:
                self._take(record)
            if found.next_offset <= self._next:
                break
            self._next = found.next_offset
            await asyncio.sleep(0)

    def _take(self, record: Record) -> None:
        found = record.properties
        out_ms = found.get(properties.TIMER_OUT_MS, "")
        topic = found.get(properties.REAL_TOPIC, "")
        if not out_ms.isdecimal() or stays(topic):
            return
        due_ms = due_time_ms(record, int(out_ms))
        if was_due_before(self._checkpoint.read_time_ms, int(out_ms), due_ms):
            return
        if (recalls := found.get(properties.TIMER_DEL_UNIQKEY)) is not None:
            self._recalled.add(recalls)
            return
        rolled_from = Mark.parse(found.get(properties.DELIVERED_MARK, ""))
        if rolled_from is not None and rolled_from.source == TIMER_SOURCE:
            self._gone.add(rolled_from.physical_offset)
        key = delete_key(topic, found.get(properties.UNIQ_KEY, ""), with_topic=self._keys_with_topic)
        heapq.heappush(self._waiting, Waiting(due_ms, record.physical_offset, record.size, key))

    async def _escape_due(self) -> None:
        now_ms = self._clock.now_ms()
        while self._waiting and self._waiting[0].due_ms <= now_ms:
            if not await self._escape(self._waiting[0]):
                return
            heapq.heappop(self._waiting)
        if self._next >= self._store.max_offset(TIMER_TOPIC, QUEUE_ID):  # else something due may not be read yet
            self._checkpoint.read_time_ms = max(self._checkpoint.read_time_ms, now_ms)
            self._checkpoint.master_queue_offset = self._next
            self._escaped.clear()

    async def _escape(self, one: Waiting) -> bool:
        if one.offset in self._gone or one.offset in self._escaped or one.key in self._recalled:
            return True
        record = waiting_record(self._store.record_at(one.offset, one.size), one.offset)
        message = None if record is None else due_message(record)
        if message is None:
            return True
        for key in (properties.TIMER_OUT_MS, properties.TIMER_ENQUEUE_MS, properties.TIMER_ROLL_TIMES):
            message.properties.pop(key, None)
        try:
            await self._bridge.put(message)
        except CometError as fault:
            if self._held_up != str(fault):
                log.warning("timed messages wait for a broker that takes them: %s", fault)
            self._held_up = str(fault)
            return False
        self._held_up = ""
        self._escaped.add(one.offset)
        self._checkpoint.counter += 1  # a Java master takes a younger one only
        return True
