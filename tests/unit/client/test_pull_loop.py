"""Where pulls go and what their answers do, with answers that no broker of ours gives yet: those of replicas."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.client.instance import ClientInstance
from cometmq.client.listeners import Listener, Subscription
from cometmq.client.process_queue import ProcessQueue, QueueLimits
from cometmq.client.pull_loop import PullLoop, PullSettings
from cometmq.client.pulled import messages_of
from cometmq.errors import CorruptRecord, PeerUnreachable
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import SubscriptionData
from cometmq.model.sysflag import PullFlag
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import encode_record
from cometmq.wire.requests.consume import PullMessage, PullMessageReply

HOST = bytes(8)


def record(offset: int, tags: str = "a") -> bytes:
    return encode_record(
        topic=b"t", queue_id=0, flag=0, queue_offset=offset, physical_offset=0, sys_flag=0, born_time_ms=0,
        born_host=HOST, store_time_ms=0, store_host=HOST, body=b"x", properties_data=f"TAGS\x01{tags}\x02".encode(),
    )  # fmt: skip


def answer(code: ResponseCode, next_offset: int, suggested: int = 0, body: bytes = b"") -> Command:
    return Command(int(code), ext=PullMessageReply(suggested, next_offset, 0, 100).write(), body=body)


class Brokers:
    """Gives prepared answers and remembers what was asked."""

    def __init__(self, *answers: Command | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, PullMessage]] = []

    async def exchange(self, broker: str, request: PullMessage, *, broker_id: int, **_: Any) -> Command:
        self.asked.append((broker_id, request))
        if not self.answers:
            await asyncio.get_running_loop().create_future()
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given


async def pulled(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> tuple[ProcessQueue, list[int]]:
    """Pull until the answers are used up; the queue, and where it was moved to."""
    monkeypatch.setattr("cometmq.client.pull_loop.PAUSE_AFTER_FAULT_S", 0)
    queue = ProcessQueue(MessageQueue("t", "b", 0), 10, QueueLimits())
    moves: list[int] = []

    async def may_pull(_: ProcessQueue) -> None: ...

    async def moved(queue: ProcessQueue) -> None:
        moves.append(queue.committable)

    wanted = Subscription(SubscriptionData("t", "a", frozenset({"a"})), Listener(print, None))
    loop = PullLoop(
        cast(ClientInstance, brokers), PullSettings("g"), queue, lambda: wanted, may_pull, lambda _: None, moved
    )
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(5):
        while brokers.answers or len(brokers.asked) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
    running.cancel()
    return queue, moves


async def test_the_suggested_replica_is_asked_next(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(
        answer(ResponseCode.SUCCESS, 12, 1, record(10) + record(11, "b")),
        answer(ResponseCode.PULL_NOT_FOUND, 12, 1),
        PeerUnreachable("the replica is gone"),
    )
    queue, _ = await pulled(brokers, monkeypatch)
    assert [broker_id for broker_id, _ in brokers.asked] == [0, 1, 1, 0]
    assert not any(request.sys_flag & PullFlag.COMMIT_OFFSET for _, request in brokers.asked)
    assert (queue.count, queue.next_offset, queue.committable) == (1, 12, 10), "the other tag is passed over"


async def test_only_the_master_may_move_us(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = Brokers(answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 11, 1), answer(ResponseCode.PULL_OFFSET_MOVED, 3, 1))
    queue, moves = await pulled(behind, monkeypatch)
    assert (queue.next_offset, moves, behind.asked[-1][0]) == (11, [], 0)
    queue, moves = await pulled(Brokers(answer(ResponseCode.PULL_OFFSET_MOVED, 3)), monkeypatch)
    assert (queue.next_offset, queue.committable, moves) == (3, 3, [3])


@given(st.integers(0, 190))
@settings(deadline=None)
def test_bodies_cut_short(size: int) -> None:
    body = record(1) + record(2)
    cut = min(size, len(body) - 1)
    if cut in (0, len(record(1))):
        assert len(messages_of(body[:cut], "b")) == (cut > 0)
    else:
        with pytest.raises(CorruptRecord):
            messages_of(body[:cut], "b")
