"""Transactions: from half messages to exactly one visible message, or none.

    begin   a producer's message becomes half: stored, and in no consumer's queue
    end     commit: stored again where it belongs; rollback: written down as ended. The first verdict stands
    check   a half message left open is stored again behind the others, and a producer of its group is asked
    give up after `transactionCheckMax` checks it goes to TRANS_CHECK_MAX_TIME_TOPIC

Everything happens in turns of the event loop: between looking at a transaction's state and storing what follows from
it there is no await, so no two ends and no end and check can meet. What was stored before a kill is found again by
`recovery`, so a commit gives one visible message whatever happens between it and its op message.

How far things are is saved in consumerOffset.json for CID_RMQ_SYS_TRANS, when all that it stands on is on the disk.

Mirrors: TransactionalMessageServiceImpl, TransactionalMessageBridge.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.offsets import Offsets
from cometmq.broker.topics import Topics
from cometmq.broker.transaction.half import QUEUE_ID, Half, is_half, make_half
from cometmq.broker.transaction.metrics import TransactionMetrics
from cometmq.broker.transaction.ops import Ops
from cometmq.broker.transaction.window import COPIES_MAX, HalfWindow, State
from cometmq.clock import Clock
from cometmq.errors import RequestRefused, StoreError
from cometmq.model import names
from cometmq.store.append import Appended
from cometmq.store.engine import Store

GROUP: Final = "CID_RMQ_SYS_TRANS"
CHECK_MAX_QUEUE_NUMS: Final = 1


class Transactions:
    """Every transaction that is open."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        messages: InnerMessages,
        offsets: Offsets,
        topics: Topics,
        metrics: TransactionMetrics,
        clock: Clock,
    ) -> None:
        self._store = store
        self._messages = messages
        self._offsets = offsets
        self._topics = topics
        self._metrics = metrics
        self.window = HalfWindow(0)
        self.ops = Ops(config, messages, store.store_host, clock, self.move_on)
        self._unsaved: tuple[int, int, int] | None = None  # half offset, op offset, and the log that they stand on

    def begin(self, message: InnerMessage) -> None:
        """A stage for producers' messages."""
        if not is_half(message):
            return
        if self._store.next_offset(names.HALF_TOPIC, QUEUE_ID) - self.window.base >= COPIES_MAX:
            raise RequestRefused(
                "SYSTEM_BUSY", f"{COPIES_MAX} half messages wait behind one that is open: end or check it, then send"
            )
        self._metrics.add(message.topic, 1)
        make_half(message)

    def commit(self, half: Half) -> int:
        """Deliver an open transaction; returns the end of what must be safe before anybody is told."""
        placed = self._messages.put(half.delivered())
        self._end(half, State.COMMITTED)
        return placed.physical_offset + placed.size

    def roll_back(self, half: Half) -> int:
        """End an open transaction without a message; returns the end of what must be safe."""
        self._end(half, State.ROLLED_BACK)
        return self.written_down()

    def written_down(self) -> int:
        """Write down what has ended, if that failed before; returns the end of what must be safe."""
        self.ops.write()
        return self.ops.end_offset

    def store_again(self, half: Half, *, check_times: int | None) -> Appended:
        """Put a copy behind the others; from now on it is the one that counts."""
        placed = self._messages.put(half.again(check_times=check_times))
        self.ops.add(self.window.move(half.root, placed.queue_offset))
        return placed

    def give_up(self, half: Half) -> None:
        """It was checked too often, or is too old: keep it aside."""
        self._topics.create_on_send_back(names.CHECK_MAX_TIME_TOPIC, CHECK_MAX_QUEUE_NUMS)
        self._messages.put(half.given_up())
        self._end(half, State.DISCARDED)

    def drop(self, half_offset: int) -> None:
        """What stands there is no half message: it can be neither checked nor ended."""
        self.window.close(half_offset, State.DISCARDED)
        self.ops.add(half_offset)

    def resume(self, half: Half) -> int:
        """Check a transaction anew, also one that was given up; returns the end of what must be safe."""
        placed = self._messages.put(half.again(check_times=0))
        if self.window.state_of(half.root) is not State.OPEN:
            self._metrics.add(half.real_topic, 1)
        if half.root != placed.queue_offset:
            self.ops.add(self.window.move(half.root, placed.queue_offset))
        return placed.physical_offset + placed.size

    def _end(self, half: Half, state: State) -> None:
        latest = self.window.latest_of(half.root)
        self.window.close(latest, state)
        self.ops.add(latest)
        self._metrics.add(half.real_topic, -1)

    async def close(self, durability: Durability) -> None:
        """Leave a store in which everything is written down."""
        self.ops.write()
        with suppress(StoreError):  # then the next start finds it out by itself
            await durability.safe(self.ops.end_offset)
        self.save_progress()
        self.save_progress()  # what has come to pass since the one before was begun

    # --- progress

    def move_on(self) -> None:
        """Every closed copy is written down now, so the window may move on."""
        self.window.advance()
        if self._unsaved is None:  # else it would run away from the disk, and never be saved
            self._unsaved = self._progress()

    def _progress(self) -> tuple[int, int, int]:
        base = self.window.base
        return base, self.ops.progress(base), self.ops.end_offset

    def save_progress(self) -> None:
        """Commit the offsets of the two queues, if the log that they stand on is on the disk."""
        if self._unsaved is None or self._store.flushed_offset < self._unsaved[2]:
            return
        half_offset, op_offset, _ = self._unsaved
        now = self._progress()
        self._unsaved = now if now[:2] != (half_offset, op_offset) else None
        for topic, offset in ((names.HALF_TOPIC, half_offset), (names.HALF_OP_TOPIC, op_offset)):
            if offset:  # a broker without transactions has no progress to show
                self._offsets.commit(GROUP, topic, QUEUE_ID, offset)
