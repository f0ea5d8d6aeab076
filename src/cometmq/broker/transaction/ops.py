"""The op topic: which copies of half messages are not open any more, for whoever opens the store next.

    RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0    TAGS=d    body "17,18,23,"    offsets of the half queue

Many ends share one op message: it is written when it has grown to `transactionOpMsgMaxSize` characters, or
`transactionOpBatchInterval` after the first of them. A commit may wait for it, because the delivered message itself
tells that it was made (`recovery`); a rollback is answered only when its op message is safe, so it writes at once
what has gathered. Java writes such messages for ends only; ours name moved and given-up copies too, which Java reads
alike.

Mirrors: TransactionalMessageServiceImpl.deletePrepareMessage, batchSendOpMessage, calculateOpOffset.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.transaction.half import QUEUE_ID, whole
from cometmq.clock import Clock
from cometmq.errors import StoreError
from cometmq.model import names, properties
from cometmq.wire.record import Record

log = logging.getLogger("cometmq.broker")

REMOVE_TAG: Final = "d"
SEPARATOR: Final = ","


class Ops:
    """Gathers what has ended and writes it down."""

    def __init__(
        self,
        config: BrokerConfig,
        messages: InnerMessages,
        host: bytes,
        clock: Clock,
        on_written: Callable[[], object],
    ) -> None:
        self._size_max = config.transaction_op_msg_max_size
        self._interval_s = config.transaction_op_batch_interval / 1000
        self._messages = messages
        self._host = host
        self._clock = clock
        self._on_written = on_written
        self._gathered: list[str] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unfinished: deque[tuple[int, int]] = deque()  # op message, the last half offset it names
        self.next_offset = 0  # of the op queue
        self.end_offset = 0  # of the log, behind the last op message

    def add(self, half_offset: int) -> None:
        """A copy is closed: write that down soon."""
        text = f"{half_offset}{SEPARATOR}"
        self._gathered.append(text)
        self._size += len(text)
        if self._size >= self._size_max:
            self._try_to_write()  # who ends a transaction has done so, whatever becomes of this
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._write_late)

    def _write_late(self) -> None:
        self._timer = None
        self._try_to_write()

    def _try_to_write(self) -> None:
        try:
            self.write()
        except StoreError as fault:  # the next round of checks tries again
            log.warning("%d ends of transactions are not written down yet: %s", len(self._gathered), fault)

    def write(self) -> None:
        """Write down what has gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._gathered:
            return
        placed = self._messages.put(
            InnerMessage(
                names.HALF_OP_TOPIC,
                QUEUE_ID,
                "".join(self._gathered).encode(),
                {properties.TAGS: REMOVE_TAG, properties.WAIT: "true"},
                born_time_ms=self._clock.now_ms(),
                born_host=self._host,
            )
        )
        self.seen(placed.queue_offset, [int(text[:-1]) for text in self._gathered])
        self.end_offset = placed.physical_offset + placed.size
        self._gathered.clear()
        self._size = 0
        self._on_written()

    def seen(self, op_offset: int, half_offsets: list[int]) -> None:
        """An op message is in the queue: it is needed until the half queue has passed all that it names."""
        self.next_offset = op_offset + 1
        self._unfinished.append((op_offset, max(half_offsets, default=-1)))

    def progress(self, half_base: int) -> int:
        """The first op message that is still needed."""
        unfinished = self._unfinished
        while unfinished and unfinished[0][1] < half_base:
            unfinished.popleft()
        return unfinished[0][0] if unfinished else self.next_offset


def named_in(record: Record) -> Iterator[int]:
    """The half offsets that an op message names."""
    if record.properties.get(properties.TAGS) == REMOVE_TAG:
        for text in record.body.decode("ascii", "replace").split(SEPARATOR):
            offset = whole(text)
            if offset is not None:
                yield offset
