"""Acknowledgements on their way to the brokers: one request at a time per broker, with all that came meanwhile.

    ack ──> queue of its broker ──> worker ──> one request: 200051, or 200151 for many

So many acknowledgements that wait together cost one round trip, and a lone one waits for nobody. One is sent again
when its connection is lost: brokers take it twice. What is queued is bounded by what was handed out.

Mirrors: BatchAck, the proxy's batch acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from cometmq.client.instance import ClientInstance
from cometmq.errors import ClientClosed, CometError, PeerRefused, PeerTimeout, PeerUnreachable
from cometmq.wire.bodies.acks import BatchAck, BatchAcks, bit_set
from cometmq.wire.codes import ResponseCode
from cometmq.wire.receipt import Handle
from cometmq.wire.requests.pop import AckMessage, BatchAckMessage

BATCH_MAX: Final = 1024
ATTEMPTS: Final = 4
RETRY_PAUSE_S: Final = 0.2


class _Waiting(NamedTuple):
    topic: str  # the program's; the handle says which retry topic is meant
    handle: Handle
    done: asyncio.Future[None]


class Acknowledger:
    """Sends the acknowledgements of one group."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._queues: dict[str, deque[_Waiting]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._one_by_one: set[str] = set()  # brokers that know no batches
        self._open: set[asyncio.Future[None]] = set()
        self._is_closed = False

    async def ack(self, topic: str, handle: Handle) -> None:
        """Returns when the broker has it. Who is cancelled meanwhile has asked all the same."""
        if self._is_closed:
            raise ClientClosed("the consumer is closed; what it did not acknowledge comes again")
        broker = handle.broker_name
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(done)
        done.add_done_callback(self._open.discard)
        if broker not in self._workers:
            self._queues[broker] = deque()
            self._news[broker] = asyncio.Event()
            self._workers[broker] = self._instance.spawn(self._work(broker), f"acknowledging to {broker}")
        self._queues[broker].append(_Waiting(topic, handle, done))
        self._news[broker].set()
        await done

    async def _work(self, broker: str) -> None:
        queue, news = self._queues[broker], self._news[broker]
        while True:
            await news.wait()
            await asyncio.sleep(0)  # who asks in the same turn comes along
            news.clear()
            while queue:
                some = [queue.popleft() for _ in range(min(len(queue), BATCH_MAX))]
                try:
                    await self._send(broker, some)
                except BaseException as fault:
                    lost = fault if isinstance(fault, CometError) else ClientClosed("closed while acknowledging")
                    for one in some:
                        if not one.done.done():
                            one.done.set_exception(lost)
                            one.done.exception()  # who gave up waiting does not want to hear of it
                    if not isinstance(fault, CometError):
                        raise
                else:
                    for one in some:
                        if not one.done.done():
                            one.done.set_result(None)

    async def _send(self, broker: str, some: list[_Waiting]) -> None:
        if len(some) > 1 and broker not in self._one_by_one:
            try:
                await self._insist(broker, BatchAckMessage(), self._body(broker, some))
                return
            except PeerRefused as refused:
                if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                self._one_by_one.add(broker)
        sent = [self._insist(broker, self._request(one)) for one in some]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        for one, answer in zip(some, answers, strict=True):
            if isinstance(answer, CometError) and not one.done.done():
                one.done.set_exception(answer)
                one.done.exception()
            elif isinstance(answer, BaseException) and not isinstance(answer, CometError):
                raise answer

    async def _insist(self, broker: str, request: AckMessage | BatchAckMessage, body: bytes = b"") -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._instance.call(broker, request, body)
                return
            except (PeerUnreachable, PeerTimeout):
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(RETRY_PAUSE_S * attempt)

    def _request(self, one: _Waiting) -> AckMessage:
        handle = one.handle
        topic = handle.topic(one.topic, self._group)
        return AckMessage(topic, self._group, handle.queue_id, handle.render(), handle.queue_offset)

    def _body(self, broker: str, some: list[_Waiting]) -> bytes:
        """All of them, those of one pop and queue as one entry."""
        pops: dict[tuple[str, Handle], list[int]] = {}
        for topic, handle, _ in some:
            start = handle.start_offset
            pops.setdefault((topic, handle._replace(queue_offset=start)), []).append(handle.queue_offset - start)
        acks = [
            BatchAck(
                self._group,
                topic,
                handle.mark,
                handle.start_offset,
                handle.queue_id,
                handle.revive_queue,
                handle.pop_time_ms,
                handle.invisible_time_ms,
                bit_set(numbers),
            )
            for (topic, handle), numbers in pops.items()
        ]
        return BatchAcks(broker, acks).encode()

    async def close(self, timeout_s: float) -> None:
        """Wait for what is queued, then end."""
        self._is_closed = True
        if self._open:
            await asyncio.wait(set(self._open), timeout=timeout_s)
        for worker in self._workers.values():
            worker.cancel()
        if self._workers:
            await asyncio.wait(self._workers.values(), timeout=timeout_s)
