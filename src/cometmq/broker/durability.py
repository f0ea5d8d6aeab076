"""From appended to acknowledged.

Everything appended in one turn of the event loop is written with one call at the end of the turn. Who comes alone
need not wait for that: where the turn before had a single send, the first send of this one is written at once. Then

    ASYNC_FLUSH   written is enough: all waiting calls are answered
    SYNC_FLUSH    one fdatasync in a thread covers everyone who waits; those who come meanwhile share the next
    SYNC_MASTER   and as many slaves as were asked for have it, too: `replicated` says how far they are

Sends whose replies are ready (`send_lane.py`) wait as a group, for what they appended is written together. Where
anything but success is to be told, the group is taken apart, and each waits for itself.

A call that waits longer than `syncFlushTimeout` is answered FLUSH_DISK_TIMEOUT: stored, not known to be durable. One
that waits for slaves longer than `slaveTimeout` is answered FLUSH_SLAVE_TIMEOUT: stored here, not known to be there.
A store that fails to write or sync fences itself, and every waiting call is refused; none is answered as good.
`before_answers` saves what an answer promises beside the message itself: a topic made by this very send.
Dispatch follows the bytes that may be seen (`Store.confirm_offset`), and tells `on_arrivals` what came.

Mirrors: CommitLog.handleDiskFlushAndHA, GroupCommitService, FlushRealTimeService.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cometmq.broker.acknowledgements import Acknowledgements, Owed, ReadyReplies, Receipt
from cometmq.broker.statistics import WriteTimes
from cometmq.errors import RequestRefused, StoreError, StoreNotWritable
from cometmq.net.routes import Call
from cometmq.store.dispatch import Arrival
from cometmq.store.engine import Store
from cometmq.wire.codes import ResponseCode

log = logging.getLogger("cometmq.broker")

_FLUSH_TIMEOUT: Final = int(ResponseCode.FLUSH_DISK_TIMEOUT)
_SLAVE_TIMEOUT: Final = int(ResponseCode.FLUSH_SLAVE_TIMEOUT)
_PAGE_SIZE: Final = 4096

DISPATCH_MAX: Final = 4096  # messages at once; others have their turn before the rest of a huge batch

Waiter = tuple[int, float, Owed]  # end offset, since, what is told to whom
Settle = Callable[["BaseException | None"], None]  # told once: None, or why it is not safe


class Durability:
    """Answers calls when what they appended is as safe as the flush mode promises."""

    def __init__(
        self,
        store: Store,
        acknowledgements: Acknowledgements,
        *,
        before_answers: Callable[[], object],
        on_arrivals: Callable[[Iterable[Arrival]], None],
    ) -> None:
        config = store.config
        self._store = store
        self._acknowledgements = acknowledgements
        self._before_answers = before_answers
        self._on_arrivals = on_arrivals
        self._sync = config.sync_flush
        self._timeout_s = config.sync_flush_timeout / 1000
        self._interval_s = config.flush_interval_commit_log / 1000
        self._thorough_s = config.flush_commit_log_thorough_interval / 1000
        self._least_bytes = config.flush_commit_log_least_pages * _PAGE_SIZE
        self._loop = asyncio.get_running_loop()
        self._unwritten: list[Owed] = []  # answered when this turn's bytes are written
        self._waiters: deque[Waiter] = deque()  # answered when they are flushed
        self._beside_first = 0  # sends that wait in groups, but for the first of each
        self._promises: deque[tuple[int, float, Settle]] = deque()  # end offset, since, the broker's own writers
        self.on_confirmed: list[Callable[[], None]] = []  # told when more of the log may be seen
        self._replicated: int | None = None  # None: no slave is waited for
        self._slave_timeout_s = 0.0
        self.too_few_replicas: Callable[[], bool] | None = None  # whether who waits for slaves is refused; None: never
        self._thread = ThreadPoolExecutor(1, "cometmq-flush")
        self._turn_sends = 0  # since the loop came round; the first one asks for the end of the turn
        self._alone = True  # the turn before had no second one
        self._dirty = False  # something is appended and not written
        self._dispatched: asyncio.Future[None] | None = None  # told of the next dispatch, or that there is none
        self._flushing: asyncio.Future[int] | None = None
        self._safe_offset = store.flushed_offset  # released and dispatched; maintenance may have flushed more
        self._flush_began = self._loop.time()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(self._interval_s, self._tick)
        self.last_write_s = 0.0
        self.write_times = WriteTimes()
        self.refused = 0  # sends, because the log could not be written

    def wait_for_slaves(self, timeout_ms: int) -> None:
        """From now on nothing is safe before `replicated` says so."""
        self._replicated = 0
        self._slave_timeout_s = timeout_ms / 1000

    def replicated(self, offset: int) -> None:
        """As many slaves as must have everything before `offset`."""
        if self._replicated is not None and offset != self._replicated:
            self._replicated = offset
            self._advance()

    def wait_for_no_slave(self) -> None:
        """Slaves are not served any more: who waits for them only is told so, and nobody will wait from now on."""
        if self._replicated is not None:
            self._give_up_waiting(float("inf"), only_kept=True)
            self._replicated = None
            self._advance()

    @property
    def lacks_replicas(self) -> bool:
        """Whether `check_replicas` would raise."""
        return self.too_few_replicas is not None and self.too_few_replicas()

    def check_replicas(self) -> None:
        """Raise if a message that is to be waited for must not be stored now. `WAIT=false` is not asked about."""
        if self.lacks_replicas:
            raise RequestRefused("SYSTEM_ERROR", "in-sync replicas not enough")

    def answer_when_safe(self, end_offset: int, call: Call, receipt: Receipt, *, sync: bool = True) -> None:
        """Answer `call` once everything before `end_offset` is as safe as promised; `sync=False` asks for less."""
        call.command.body = b""  # the log has it; kept here, it would hold a receive buffer while the disk is slow
        if sync and (self._sync or self._replicated is not None):
            self._waiters.append((end_offset, self._loop.time(), (call, receipt)))
        else:
            self._unwritten.append((call, receipt))
        if self._turn_sends:
            self._turn_sends += 1
            self._dirty = True
            return
        self.end_turn_soon()
        if self._alone:
            self._write()

    def let_leave_when_safe(self, replies: ReadyReplies) -> None:
        """`answer_when_safe` for many."""
        if self._sync or self._replicated is not None:
            self._waiters.append((replies.end_offset, self._loop.time(), replies))
            self._beside_first += replies.count - 1
        else:
            self._unwritten.append(replies)
        if self._turn_sends:
            self._turn_sends += replies.count
            self._dirty = True
            return
        self.end_turn_soon()
        self._turn_sends = replies.count
        if self._alone:
            self._write()

    def end_turn_soon(self) -> None:
        """Something was appended: write it when this turn of the loop ends."""
        if not self._turn_sends:
            self._loop.call_soon(self._end_turn)
        self._turn_sends += 1
        self._dirty = True

    def when_safe(self, end_offset: int, settle: Settle) -> None:
        """Tell `settle` once everything before `end_offset` is as safe as promised to producers, or cannot be."""
        self._promises.append((end_offset, self._loop.time(), settle))
        self.end_turn_soon()

    async def safe(self, end_offset: int) -> None:
        """Return once everything before `end_offset` is as safe as promised to producers; raises if it cannot be."""
        done: asyncio.Future[None] = self._loop.create_future()

        def settle(fault: BaseException | None) -> None:
            if done.done():
                return
            if fault is None:
                done.set_result(None)
            else:
                done.set_exception(fault)

        self.when_safe(end_offset, settle)
        await done

    @property
    def waiting(self) -> int:
        """How many sends wait for the disk or the slaves."""
        return len(self._waiters) + self._beside_first

    @property
    def longest_wait_ms(self) -> int:
        """How long the first of those who wait has waited."""
        return int((self._loop.time() - self._waiters[0][1]) * 1000) if self._waiters else 0

    def _end_turn(self) -> None:
        self._alone = self._turn_sends == 1
        self._turn_sends = 0
        if self._dirty:
            self._write()
        if not self._sync:
            self._loop.call_soon(self._dispatch)

    def _write(self) -> None:
        """Everything appended so far goes to the log, and is answered or flushed."""
        self._dirty = False
        began = self._loop.time()
        try:
            self._store.write()
            self._before_answers()
        except (StoreError, OSError) as fault:
            self._refuse_all(fault)
        self.last_write_s = self._loop.time() - began
        self.write_times.add(self.last_write_s)
        unwritten, self._unwritten = self._unwritten, []
        self._acknowledgements.send_all(unwritten)
        self._advance()  # in SYNC_FLUSH: who asks about what is safe already
        if self._sync:
            self._start_flush()
        else:
            self._confirmed()

    def _confirmed(self) -> None:
        for tell in self.on_confirmed:
            tell()

    @property
    def _kept_here(self) -> int:
        """Everything before it is as safe as this broker alone can make it."""
        return self._safe_offset if self._sync else self._store.written_offset

    @property
    def _safe(self) -> int:
        """Everything before it is as safe as promised."""
        return self._kept_here if self._replicated is None else min(self._kept_here, self._replicated)

    def _advance(self) -> None:
        """Tell those whose bytes are safe by now."""
        safe_offset = self._safe
        if self._waiters:
            self._release(safe_offset)
        if self._promises:
            self._settle(safe_offset)

    def _settle(self, safe_offset: int, fault: BaseException | None = None) -> None:
        promises = self._promises
        while promises and (fault is not None or promises[0][0] <= safe_offset):
            promises.popleft()[2](fault)

    def _release(self, safe_offset: int) -> None:
        waiting = self._waiters
        safe: list[Owed] = []
        while waiting and waiting[0][0] <= safe_offset:
            safe.append(owed := waiting.popleft()[2])
            if isinstance(owed, ReadyReplies):
                self._beside_first -= owed.count - 1
        self._acknowledgements.send_all(safe)

    def _take_first_apart(self, since: float, replies: ReadyReplies) -> None:
        """Let each send of the first group wait for itself."""
        apart = replies.apart()
        self._waiters.popleft()
        self._waiters.extendleft((end, since, (call, receipt)) for end, call, receipt in reversed(apart))
        self._beside_first -= replies.count - 1

    def dispatch_soon(self) -> None:
        """What dispatch waited for has come."""
        self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """A callback of its own: uvloop sends what was written when a callback ends, so the answers leave first."""
        arrivals = self._store.dispatch(DISPATCH_MAX)
        if arrivals:
            self._on_arrivals(arrivals)
        if self._store.dispatch_waits:
            self._loop.call_soon(self._dispatch)
        if self._dispatched is not None:
            self._dispatched.set_result(None)
            self._dispatched = None

    async def dispatched(self) -> None:
        """Return once everything that is appended by now is in the queues; at once if the disk has failed."""
        end = self._store.undispatched[1]
        while 0 < self._store.undispatched[0] <= end and self._store.writable:
            if self._dispatched is None:
                self._dispatched = self._loop.create_future()
            await asyncio.shield(self._dispatched)

    # --- flushing

    def _start_flush(self) -> None:
        if self._flushing is None and self._store.written_offset > self._safe_offset:
            self._flush_began = self._loop.time()
            self._flushing = self._loop.run_in_executor(self._thread, self._store.flush_log)
            self._flushing.add_done_callback(self._flushed)

    def _flushed(self, done: asyncio.Future[int]) -> None:
        self._flushing = None
        if done.cancelled():
            return
        fault = done.exception()
        if fault is not None:
            self._refuse_all(fault)
            return
        self._safe_offset = done.result()
        if self._sync:
            self._confirmed()
            self._advance()
            self._loop.call_soon(self._dispatch)
            self._start_flush()

    def _refuse_all(self, fault: BaseException) -> None:
        calls: list[Call] = []
        for owed in [*self._unwritten, *(owed for _, _, owed in self._waiters)]:
            calls += [call for _, call, _ in owed.apart()] if isinstance(owed, ReadyReplies) else owed[:1]
        self._unwritten.clear()
        self._waiters.clear()
        self._beside_first = 0
        self.refused += len(calls)
        if calls or self._promises:
            log.error("those who wait for the disk are refused: %s", fault)
        refusal = fault if isinstance(fault, StoreError) else StoreNotWritable(str(fault))
        for call in calls:
            call.refuse(refusal)
        self._settle(0, refusal)
        self._loop.call_soon(self._dispatch)

    def _tick(self) -> None:
        """Every half second: the flush of ASYNC_FLUSH, and the calls that have waited too long.

        What the flush before did not take waits no longer than the thorough interval: the next tick would be too late.
        """
        now = self._loop.time()
        dirty = self._store.written_offset - self._safe_offset
        late = now - self._flush_began > self._thorough_s - self._interval_s
        if not self._sync and self._store.writable and dirty and (late or dirty >= self._least_bytes):
            self._start_flush()
        self._give_up_waiting(now)
        self._timer = self._loop.call_later(self._interval_s, self._tick)

    def _give_up_waiting(self, now: float, *, only_kept: bool = False) -> None:
        kept_here = self._kept_here
        while self._waiters:
            end_offset, since, owed = self._waiters[0]
            kept = end_offset <= kept_here
            if (only_kept and not kept) or now - since <= (self._slave_timeout_s if kept else self._timeout_s):
                break
            if isinstance(owed, ReadyReplies):
                self._take_first_apart(since, owed)
                self._release(self._safe)  # the slaves may have some of them
                continue
            self._waiters.popleft()
            self._acknowledgements.send(*owed, _SLAVE_TIMEOUT if kept else _FLUSH_TIMEOUT)
        # The broker's own writers go on without the slaves, as the original's do.
        promises = self._promises
        while promises and promises[0][0] <= kept_here and now - promises[0][1] > self._slave_timeout_s:
            promises.popleft()[2](None)

    async def close(self) -> None:
        """Write and flush what is left and answer those who wait for it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._turn_sends:
            self._end_turn()
        self._start_flush()
        while self._flushing is not None:  # `_flushed` starts the next where more was written meanwhile
            await asyncio.wait([self._flushing])
            await asyncio.sleep(0)  # let `_flushed` run
        await asyncio.sleep(0)  # and the last dispatch
        self._give_up_waiting(float("inf"))  # for slaves, which we stop serving
        self._thread.shutdown()
