"""Transactions of a group whose master is gone: the slave that acts for it hands its half messages to another master.

There they are half messages like any other: the producer is asked, and ends them there. Which are open is read from
the log alone (`recovery` tells the rules); what was handed over is in the progress of the half topic, which the master
that comes back asks for, so that it does not ask about them again.

Mirrors: TransactionalMessageServiceImpl.check on an acting slave, buildTransactionalMessageFromHalfMessage.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cometmq.broker.acting.bridge import EscapeBridge
from cometmq.broker.inner_messages import InnerMessage
from cometmq.broker.offsets import Offsets
from cometmq.broker.transaction.half import ONLY_OF_HALVES, QUEUE_ID, Half
from cometmq.broker.transaction.ops import named_in
from cometmq.broker.transaction.recovery import delivered_halves, records_of, saved_offset
from cometmq.broker.transaction.service import GROUP
from cometmq.errors import CometError
from cometmq.model import names, properties
from cometmq.model.sysflag import TRANSACTION_MASK, MessageFlag
from cometmq.store.engine import Store

log = logging.getLogger("cometmq.broker")

LOOK_EVERY_S: Final = 1.0


class TransactionEscape:
    """A duty of an acting slave."""

    def __init__(self, store: Store, offsets: Offsets, bridge: EscapeBridge) -> None:
        self._store = store
        self._offsets = offsets
        self._bridge = bridge
        self._escaped: set[int] = set()  # roots that are not in the progress yet
        self._held_up = ""

    async def run(self) -> None:
        while True:
            await self._round()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _round(self) -> None:
        store = self._store
        ends = [store.max_offset(topic, QUEUE_ID) for topic in (names.HALF_TOPIC, names.HALF_OP_TOPIC)]
        if ends[0] == saved_offset(store, self._offsets, names.HALF_TOPIC):
            return
        for half in open_halves(store, self._offsets).values():
            if half.root not in self._escaped:
                try:
                    await self._bridge.put(prepared(half))
                except CometError as fault:
                    if self._held_up != str(fault):
                        log.warning("half messages wait for a broker that takes them: %s", fault)
                    self._held_up = str(fault)
                    return
                self._escaped.add(half.root)
        self._held_up = ""
        for topic, end in zip((names.HALF_TOPIC, names.HALF_OP_TOPIC), ends, strict=True):
            self._offsets.commit(GROUP, topic, QUEUE_ID, end)
        self._escaped.clear()


def open_halves(store: Store, offsets: Offsets) -> dict[int, Half]:
    """The latest copy of every transaction that is open, by its root."""
    closed: set[int] = set()
    for record in records_of(store, names.HALF_OP_TOPIC, saved_offset(store, offsets, names.HALF_OP_TOPIC)):
        closed.update(named_in(record))
    latest: dict[int, Half] = {}
    first: int | None = None
    for record in records_of(store, names.HALF_TOPIC, saved_offset(store, offsets, names.HALF_TOPIC)):
        half = None if record.queue_offset in closed else Half.read(record)
        if half is not None:
            first = record.physical_offset if first is None else first
            latest[half.root] = half
    if first is not None:
        for half, _ in delivered_halves(store, first):
            latest.pop(half.root, None)
    return latest


def prepared(half: Half) -> InnerMessage:
    """A half message as its producer sent it."""
    message = InnerMessage.of(half.record)
    message.properties = {key: value for key, value in half.properties.items() if key not in ONLY_OF_HALVES}
    message.properties[properties.TRANSACTION_PREPARED] = "true"
    message.topic = half.real_topic
    message.sys_flag = half.record.sys_flag & ~TRANSACTION_MASK | MessageFlag.TRANSACTION_PREPARED
    return message
