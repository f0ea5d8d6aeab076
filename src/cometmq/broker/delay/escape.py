"""Delayed messages of a group whose master is gone: the slave that acts for it sends them to another master when due.

Each level goes on where the master was, as the slave knows it, and passes over what the master has delivered since
(`delivered_marks`). A message that nobody takes holds up its level, no other. How far it got is the slave's
`delayOffset.json`; the master that comes back asks for it, and goes on there.

Mirrors: ScheduleMessageService on a slave, EscapeBridge.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cometmq.broker.acting.bridge import EscapeBridge
from cometmq.broker.delay.progress import DelayOffsets
from cometmq.broker.delivered_marks import DELAY_SOURCE, delivered_since
from cometmq.broker.inner_messages import InnerMessage
from cometmq.broker.inner_reader import InnerReader
from cometmq.clock import Clock
from cometmq.errors import CometError
from cometmq.model import properties
from cometmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from cometmq.store.engine import Store
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.broker")

BATCH_COUNT_MAX: Final = 32
LOOK_EVERY_S: Final = 0.2
_OF_THE_WAIT: Final = (
    properties.DELAY,
    properties.REAL_TOPIC,
    properties.REAL_QUEUE_ID,
    properties.DELIVERED_MARK,
    *properties.TIMER_WISHES,
)


class DelayEscape:
    """A duty of an acting slave."""

    def __init__(
        self,
        levels: int,
        store: Store,
        reader: InnerReader,
        progress: DelayOffsets,
        bridge: EscapeBridge,
        clock: Clock,
    ) -> None:
        self._levels = range(1, levels + 1)
        self._store = store
        self._reader = reader
        self._progress = progress
        self._bridge = bridge
        self._clock = clock
        self._held_up: dict[int, str] = {}  # level → why

    async def run(self) -> None:
        since = self._progress.delivered_before or 0  # the whole log, if the master has never said how far it is
        delivered = {mark.physical_offset for mark in delivered_since(self._store, since, DELAY_SOURCE)}
        while True:
            for level in self._levels:
                while await self._escape_some(level, delivered):
                    pass
            await asyncio.sleep(LOOK_EVERY_S)

    async def _escape_some(self, level: int, delivered: set[int]) -> bool:
        """Send away what is due of a level, up to a batch; whether there may be more."""
        queue_id = level - 1
        low = self._store.min_offset(SCHEDULE_TOPIC, queue_id)
        offset = max(self._progress.current.get(level, 0), low)
        due_times_ms = self._store.unit_codes(SCHEDULE_TOPIC, queue_id, offset, BATCH_COUNT_MAX)
        now_ms = self._clock.now_ms()
        count = next((at for at, due_ms in enumerate(due_times_ms) if due_ms > now_ms), len(due_times_ms))
        if not count:
            return False
        found = await self._reader.read(SCHEDULE_TOPIC, queue_id, offset, count)
        for record in found.records:
            message = None if record.physical_offset in delivered else due_message(record)
            if message is not None and not await self._escape(level, message):
                return False
            self._progress.advance(level, record.queue_offset + 1)
        self._progress.advance(level, max(found.next_offset, offset + 1))
        return True

    async def _escape(self, level: int, message: InnerMessage) -> bool:
        try:
            await self._bridge.put(message)
        except CometError as fault:
            if self._held_up.get(level) != str(fault):
                log.warning("delay level %d waits for a broker that takes its messages: %s", level, fault)
            self._held_up[level] = str(fault)
            return False
        self._progress.data_version.advance(self._clock.now_ms())  # a Java master takes a younger table only
        self._held_up.pop(level, None)
        return True


def due_message(record: Record) -> InnerMessage | None:
    """What is sent of a record whose time has come; None if it does not say where to."""
    message = InnerMessage.of(record)
    found = message.properties
    topic = found.get(properties.REAL_TOPIC, "")
    if not topic or topic in (HALF_TOPIC, SCHEDULE_TOPIC):
        return None
    for key in _OF_THE_WAIT:
        found.pop(key, None)
    message.topic = topic
    return message
