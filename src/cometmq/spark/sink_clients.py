"""Producers of the sink, one for each cluster and group in a Python process, kept while Spark keeps the process.

They live on one event loop in a thread of its own, because Spark hands rows out to a thread that waits; the loop goes
on when a task or a commit has ended, which is how a broker can ask the driver how a transaction ended. A forked child
starts with none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, TypeVar

from cometmq.blocking.loop_thread import LoopThread, borrow, give_back
from cometmq.client.forking import GENERATION
from cometmq.client.many_ends import extensions
from cometmq.client.options import ClientOptions
from cometmq.client.producer import Producer
from cometmq.client.transaction import Checker
from cometmq.errors import (
    CometError,
    PeerError,
    PeerRefused,
    PeerUnreachable,
    SendFailed,
    ServerTooOld,
    TopicNotFound,
)
from cometmq.model.queue import MessageQueue
from cometmq.wire.bodies.cluster import decode_cluster_info
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.extensions import SURE_ENDS
from cometmq.wire.requests.namesrv import GetClusterInfo

_T = TypeVar("_T")

IN_FLIGHT: Final = 4096
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 2.0
IN_TIME: Final = frozenset(  # answers that may be others soon
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.GO_AWAY,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)


class _Kept:
    """What this process has."""

    def __init__(self) -> None:
        self.generation = GENERATION.number
        self.thread: LoopThread | None = None
        self.producers: dict[tuple[ClientOptions, str], Producer] = {}
        self.sure: set[tuple[str, str]] = set()  # name servers and brokers that were asked and said yes


_kept = _Kept()


def run(make: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine on the loop of this process and wait for it."""
    if _kept.generation != GENERATION.number:
        _kept.__init__()  # type: ignore[misc]
    if _kept.thread is None:
        _kept.thread = borrow()  # and never given back: the process is Spark's
    return _kept.thread.run(make)


def close() -> None:
    """End the producers and the loop; the next one to ask starts them anew."""
    thread, producers = _kept.thread, list(_kept.producers.values())
    if thread is None or _kept.generation != GENERATION.number:
        return

    async def close_all() -> None:
        for producer in producers:
            await producer.close()

    thread.run(close_all)
    thread.clients.difference_update(producers)
    _kept.__init__()  # type: ignore[misc]
    give_back(thread)


async def producer_of(options: ClientOptions, group: str, checker: Checker | None = None) -> Producer:
    """The producer of a group, started if it is not there yet."""
    key = options, group
    producer = _kept.producers.get(key)
    if producer is None:
        producer = Producer(
            group,
            namesrv=options.namesrv,
            request_timeout_ms=options.request_timeout_ms,
            connect_timeout_ms=options.connect_timeout_ms,
            credentials=options.credentials,
            tls=options.tls,
            send_timeout_ms=options.request_timeout_ms,
            in_flight=IN_FLIGHT,
            checker=checker,
        )
        await producer.start()
        _kept.producers[key] = producer
        assert _kept.thread is not None
        _kept.thread.clients.add(producer)  # it says good-bye when the process ends
    return producer


async def writable(producer: Producer, topic: str) -> tuple[MessageQueue, ...]:
    """Where a topic can be written. While no broker is registered nobody can say that it is absent: that may pass."""
    try:
        return await producer.instance.writable_queues(topic)
    except TopicNotFound:
        servers = producer.instance.name_servers
        if decode_cluster_info((await servers.call(GetClusterInfo())).body).brokers:
            raise
        raise PeerUnreachable(f"no broker is registered with the name servers ({servers}) now") from None


async def check_sure(producer: Producer, namesrv: str, broker: str) -> None:
    """Refuse a broker on which a transaction that is ended twice may be delivered twice."""
    if (namesrv, broker) in _kept.sure:
        return
    if SURE_ENDS not in await extensions(producer.instance, broker):
        raise ServerTooOld(
            f"guarantee=exactly-once is not possible on broker {broker}: it does not offer the extension {SURE_ENDS}. "
            "On Apache RocketMQ a commit that is repeated, as a restarted driver must repeat it, stores the message "
            "again, and half messages are given up while no driver is there; CometMQ needs messageIndexEnable=true. "
            "Use guarantee=at-least-once, with ids (idColumn) by which consumers drop what comes twice"
        )
    _kept.sure.add((namesrv, broker))


def may_pass(fault: BaseException) -> bool:
    """Whether the same may succeed in a while: a broker that starts again, or has too much to do."""
    if isinstance(fault, SendFailed):
        return fault.code is None or fault.code in IN_TIME
    if isinstance(fault, PeerRefused):
        return fault.code in IN_TIME
    return isinstance(fault, PeerError)


async def tries(retry_ms: int, again: Callable[[CometError], bool] = may_pass) -> AsyncIterator[Try]:
    """`async for one in tries(ms): with one: …` until it ends well, or time is over, or it can never end well."""
    loop = asyncio.get_running_loop()
    until = loop.time() + retry_ms / 1000
    pause_s = PAUSE_S
    while True:
        one = Try()
        yield one
        if one.fault is None:
            return
        if not again(one.fault) or loop.time() + pause_s > until:
            raise one.fault
        await asyncio.sleep(pause_s * random.uniform(0.7, 1.3))
        pause_s = min(pause_s * 2, PAUSE_MAX_S)


class Try:
    """Keeps an error of ours; others go through."""

    fault: CometError | None = None

    def __enter__(self) -> None:
        self.fault = None

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> bool:
        if isinstance(fault, CometError):
            self.fault = fault
            return True
        return False
