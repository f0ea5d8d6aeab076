"""Queue locks: one holder at a time, until it lets go or its time is over."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.conftest import StartBroker

from cometmq.broker.locks.table import LIVE_MS, QueueLocks
from cometmq.errors import PeerRefused
from cometmq.model.queue import MessageQueue
from cometmq.wire.bodies.queues import QueuesToLock, decode_locked_queues
from cometmq.wire.requests.members import LockBatchMq, UnlockBatchMq

from .state_kit import StillClock

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def test_a_stranger_gets_what_is_free_only() -> None:
    locks = QueueLocks(StillClock())
    assert locks.lock("g", [A], "one") == [A]
    assert locks.lock("g", [A, B], "two") == [B]
    assert locks.lock("other", [A], "two") == [A]
    locks.unlock("g", [A], "two")
    assert locks.holder("g", A) == "one"
    locks.unlock("g", [A, B], "one")
    assert locks.holder("g", A) is None
    assert locks.holder("g", B) == "two"


def test_a_lock_lasts_from_its_last_renewal() -> None:
    clock = StillClock()
    locks = QueueLocks(clock)
    locks.lock("g", [A], "one")
    clock.time_ms += LIVE_MS
    assert locks.lock("g", [A], "one") == [A]
    clock.time_ms += LIVE_MS
    assert locks.lock("g", [A], "two") == []
    assert not locks.all_expired("g")
    clock.time_ms += 1
    assert locks.all_expired("g")
    assert locks.lock("g", [A], "two") == [A]
    assert locks.lock("g", [A], "one") == []


def test_locks_are_bounded() -> None:
    clock = StillClock()
    locks = QueueLocks(clock, locks_max=2)
    assert locks.lock("g", [A, B], "one") == [A, B]
    assert locks.lock("h", [A], "one") == []
    assert locks.lock("g", [A], "one") == [A]
    clock.time_ms += LIVE_MS + 1
    assert locks.lock("h", [A], "one") == [A]
    assert len(locks) == 1


class Holders(RuleBasedStateMachine):
    """Against a dictionary of holder and end."""

    clients = st.sampled_from(["one", "two", "three"])
    queues = st.sampled_from([A, B])

    def __init__(self) -> None:
        super().__init__()
        self.clock = StillClock()
        self.locks = QueueLocks(self.clock, live_ms=10)
        self.held: dict[MessageQueue, tuple[str, int]] = {}

    def holder(self, queue: MessageQueue) -> str | None:
        client, end_ms = self.held.get(queue, (None, 0))
        return client if end_ms >= self.clock.time_ms else None

    @rule(client=clients, queue=queues)
    def lock(self, client: str, queue: MessageQueue) -> None:
        may = self.holder(queue) in (None, client)
        assert self.locks.lock("g", [queue], client) == ([queue] if may else [])
        if may:
            self.held[queue] = (client, self.clock.time_ms + 10)

    @rule(client=clients, queue=queues)
    def unlock(self, client: str, queue: MessageQueue) -> None:
        self.locks.unlock("g", [queue], client)
        if self.held.get(queue, ("", 0))[0] == client:
            del self.held[queue]

    @rule(passed_ms=st.integers(1, 12))
    def wait(self, passed_ms: int) -> None:
        self.clock.time_ms += passed_ms

    @rule()
    def forget(self) -> None:
        self.locks.forget_expired()
        assert len(self.locks) == sum(self.holder(queue) is not None for queue in (A, B))

    @invariant()
    def same_holders(self) -> None:
        assert [self.locks.holder("g", queue) for queue in (A, B)] == [self.holder(A), self.holder(B)]
        assert self.locks.all_expired("g") == (self.holder(A) is None and self.holder(B) is None)


TestHolders = Holders.TestCase


async def test_locking_by_request(broker: StartBroker) -> None:
    async with broker(**{"rocketmq.broker.rebalance.lockMaxLiveTime": "60000"}) as (_, channel):
        answer = await channel.call(LockBatchMq(), QueuesToLock("g", "one", [A, A, B]).encode())
        assert decode_locked_queues(answer.body) == [A, B]
        answer = await channel.call(LockBatchMq(), QueuesToLock("g", "two", [A], only_this_broker=True).encode())
        assert decode_locked_queues(answer.body) == []
        await channel.call(UnlockBatchMq(), QueuesToLock("g", "one", [A]).encode())
        answer = await channel.call(LockBatchMq(), QueuesToLock("g", "two", [A]).encode())
        assert decode_locked_queues(answer.body) == [A]


@pytest.mark.parametrize(
    "body", [b"", b"7", b"{", b'{"mqSet":[{"queueId":0}]}', b'{"consumerGroup":"g","clientId":"c","mqSet":7}']
)
async def test_a_body_that_names_nobody_locks_nothing(broker: StartBroker, body: bytes) -> None:
    async with broker() as (_, channel):
        for request in (LockBatchMq(), UnlockBatchMq()):
            with pytest.raises(PeerRefused, match="code 1:"):
                await channel.call(request, body)
