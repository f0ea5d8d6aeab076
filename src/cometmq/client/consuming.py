"""The workers of a push consumer: so many tasks as messages may be consumed at once, which call the listeners.

Queues with messages stand in a line; a free worker takes the first, consumes from it, and puts it behind the others if
there is more. No task is made per message. A listener that never waits for anything would hold the loop: a worker
steps aside after `TURN_S`. One that takes longer than the consume timeout is cancelled, and its messages are treated as
if it had raised. A thread cannot be cancelled: its result is ignored, and its worker takes nothing more until it ends.

How a result is treated is the difference between `listen_concurrent.py` and `listen_orderly.py`.

Mirrors: ConsumeMessageService.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from cometmq.client.instance import ClientInstance
from cometmq.client.listen_watch import ListenWatch
from cometmq.client.listeners import Listener
from cometmq.client.message import ReceivedMessage
from cometmq.client.pop_loop import PopQueue
from cometmq.client.process_queue import ProcessQueue, Slot
from cometmq.errors import ClientError, ConsumeTimedOut

log = logging.getLogger("cometmq.client")

TURN_S: Final = 0.005
_CANCEL_WAIT_S: Final = 1.0

ListenerOf = Callable[[ReceivedMessage], Listener | None]
WorkQueue = ProcessQueue | PopQueue


class Worker:
    """One of the tasks, and since when its listener runs."""

    __slots__ = ("is_expired", "left", "started", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.started = 0.0
        self.is_expired = False
        self.left: list[asyncio.Future[Any]] = []  # threads that nobody waits for any more


class Consuming:
    """The base of both ways; a subclass says how one queue is served."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        listener_of: ListenerOf,
        *,
        concurrency: int,
        timeout_s: float,
    ) -> None:
        self.instance = instance
        self.group = group
        self.listener_of = listener_of
        self.loop = asyncio.get_running_loop()
        self.consumed = 0
        self.failed = 0
        self.timed_out = 0
        self.is_suspended = False
        self.watching: ListenWatch | None = None
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix=f"cometmq {group}")  # starts none until asked
        self._workers = [Worker() for _ in range(concurrency)]
        self._idle: deque[asyncio.Future[None]] = deque()
        self._line: deque[WorkQueue] = deque()
        self._in_line: set[int] = set()  # by identity: a queue that was lost and came back is another
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._watching: asyncio.Task[None] | None = None

    # --- coming and going

    def start(self) -> None:
        for worker in self._workers:
            worker.task = self.instance.spawn(self._work(worker), f"worker of {self.group}")
            self._tasks.append(worker.task)
        self._watching = self.instance.spawn(self._watch(), f"consume timeouts of {self.group}")

    async def stop(self, timeout_s: float) -> bool:
        """Hand out nothing more and wait for the listeners; those that take longer are cancelled (False)."""
        self._is_stopping = True
        self._wake(len(self._idle))
        _, late = await asyncio.wait(self._tasks, timeout=timeout_s) if self._tasks else (set(), set())
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CANCEL_WAIT_S)
        if self._watching is not None:
            self._watching.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not late

    def suspend(self) -> None:
        self.is_suspended = True

    def resume(self) -> None:
        self.is_suspended = False
        self._wake(len(self._idle))

    # --- the line

    def offer(self, queue: WorkQueue) -> None:
        """A queue has messages to be taken."""
        if queue.waiting_count and not queue.is_dropped:
            if id(queue) not in self._in_line:
                self._in_line.add(id(queue))
                self._line.append(queue)
            self._wake(self._useful_workers(queue))

    def _useful_workers(self, queue: WorkQueue) -> int:
        """How many workers a queue can keep busy."""
        return queue.waiting_count

    def _wake(self, count: int) -> None:
        idle = self._idle
        while count > 0 and idle:
            waiting = idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1

    def _next(self) -> WorkQueue | None:
        if self.is_suspended:
            return None
        while self._line:
            queue = self._line.popleft()
            self._in_line.discard(id(queue))
            if queue.waiting_count and not queue.is_dropped:
                return queue
        return None

    @property
    def may_go_on(self) -> bool:
        return not self.is_suspended and not self._is_stopping

    async def _work(self, worker: Worker) -> None:
        while not self._is_stopping:
            queue = self._next()
            if queue is None:
                waiting = self.loop.create_future()
                self._idle.append(waiting)
                await waiting
            else:
                try:
                    await self.serve(worker, queue)
                except Exception:  # no listener's: those are taken care of. The worker must live on
                    log.exception("group %s: consuming from %s stumbled", self.group, queue.queue)
                if worker.left:
                    await asyncio.wait(worker.left)
                    worker.left.clear()

    async def serve(self, worker: Worker, queue: WorkQueue) -> None:
        """Consume from a queue for a turn."""
        raise NotImplementedError

    # --- one call of a listener

    def take(self, queue: WorkQueue) -> tuple[Listener | None, list[Slot]]:
        """The next messages for one call: as many as the listener of the first one takes, and all for that one."""
        first = queue.take(1)
        if not first:
            return None, first
        listener = self.listener_of(first[0].message)
        if listener is None or listener.batch == 1:
            return listener, first
        more = 0
        for slot in queue.waiting:
            if more + 1 >= listener.batch or self.listener_of(slot.message) is not listener:
                break
            more += 1
        return listener, first + queue.take(more)

    async def hear(self, worker: Worker, listener: Listener | None, slots: list[Slot]) -> BaseException | None:
        """Call the listener; returns what it raised."""
        messages = [slot.message for slot in slots]
        if listener is None:
            return ClientError(f"no listener is subscribed to {messages[0].topic} any more")
        worker.started = self.loop.time()
        try:
            if self.watching is None:
                await listener.hear(messages, self._pool, worker.left)
            else:
                await self.watching.hear(listener, messages, self._pool, worker.left)
        except Exception as fault:
            self.failed += len(slots)
            self._tell(messages, fault)
            return fault
        except asyncio.CancelledError as cancelled:
            if worker.is_expired and worker.task is not None and not self._is_stopping:
                worker.task.uncancel()
                self.timed_out += len(slots)
                return ConsumeTimedOut(f"the listener took longer than {self._timeout_s:g} s")
            if worker.task is not None and worker.task.cancelling():
                raise
            return cancelled  # the listener's own affair: something that it waited for was cancelled
        finally:
            worker.started = 0.0
            worker.is_expired = False
        self.consumed += len(slots)
        return None

    def _tell(self, messages: list[ReceivedMessage], fault: BaseException) -> None:
        trace = None if isinstance(fault, ClientError) else fault
        more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
        log.warning("group %s: the listener failed on %r%s: %r", self.group, messages[0], more, fault, exc_info=trace)

    async def _watch(self) -> None:
        """Cancel listeners that take too long."""
        while True:
            await asyncio.sleep(min(1.0, self._timeout_s / 4))
            latest = self.loop.time() - self._timeout_s
            for worker in self._workers:
                if worker.started and worker.started < latest and not worker.is_expired and worker.task is not None:
                    worker.is_expired = True
                    worker.task.cancel()
                    log.warning("group %s: a listener took longer than %g s", self.group, self._timeout_s)

    async def consume_directly(self, message: ReceivedMessage) -> BaseException | None:
        """Give one message to its listener, beside all others."""
        listener = self.listener_of(message)
        if listener is None:
            return ClientError(f"no listener is subscribed to {message.topic}")
        try:
            async with asyncio.timeout(self._timeout_s):
                await listener.hear([message], self._pool, [])
        except Exception as fault:
            self._tell([message], fault)
            return fault
        return None
