"""Parked pulls cost what those cost that are still waited for."""

from __future__ import annotations

import asyncio
import time

import pytest

from cometmq.broker.long_polling import FORGET_STEP, LongPolling, ParkedPull
from cometmq.net.channel import Channel
from cometmq.net.routes import Call
from cometmq.wire.command import Command

HOUR_S = 3600.0
QUEUE = ("T", 0)


def nobody(_channel: Channel, _command: Command) -> None: ...


def call(*, connected: bool = True) -> Call:
    channel = Channel(nobody)
    if connected:
        channel.connection_made(asyncio.Transport())
    return Call(channel, Command(11, body=memoryview(bytes(1000))[:1]))


async def test_answered_pulls_do_not_wait_for_their_deadlines() -> None:
    def answer(pull: ParkedPull, _timed_out: bool) -> bool:
        pull.call.answered = True
        return True

    polling = LongPolling(answer)
    for offset in range(10_000):
        polling.park(QUEUE, offset, HOUR_S, call(), None)
        polling.arrived([(*QUEUE, offset + 1)])
    assert polling.count == 0
    assert len(polling._deadlines) <= 2 * FORGET_STEP
    polling.close()


async def test_pulls_of_closed_connections_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.broker.long_polling.PARKED_MAX", 2_000)
    polling = LongPolling(lambda _pull, _timed_out: True)
    assert all(polling.park(QUEUE, 0, HOUR_S, call(connected=False), None) for _ in range(10_000))
    assert polling.count <= 2_000
    polling.close()


async def test_a_parked_pull_holds_no_receive_buffer() -> None:
    polling = LongPolling(lambda _pull, _timed_out: True)
    parked = call()
    polling.park(QUEUE, 0, HOUR_S, parked, None)
    assert parked.body == b""
    polling.close()


def cpu_s_of_expiry(count: int) -> float:
    """CPU time that it takes when so many pulls of one queue run out of time together."""

    async def run() -> float:
        woken: list[ParkedPull] = []

        def answer(pull: ParkedPull, timed_out: bool) -> bool:
            assert timed_out
            woken.append(pull)
            return True

        polling = LongPolling(answer)
        one = call()
        for _ in range(count):
            polling.park(QUEUE, 0, 0.0, Call(one.channel, one.command), None)
        began = time.process_time()
        polling._deadlines._ring()
        took = time.process_time() - began
        assert (len(woken), polling.count) == (count, 0)
        polling.close()
        return took

    return asyncio.run(run())


def test_time_runs_out_for_many_at_a_price_each() -> None:
    few, many = min(cpu_s_of_expiry(1_000) for _ in range(3)), min(cpu_s_of_expiry(20_000) for _ in range(3))
    assert many < 100 * few  # twenty times as many; four hundred times the work if each looked at all others


async def test_an_arrival_looks_at_its_own_queue_only() -> None:
    woken: list[ParkedPull] = []

    def answer(pull: ParkedPull, _timed_out: bool) -> bool:
        woken.append(pull)
        return True

    polling = LongPolling(answer)
    one = call()
    for queue_id in range(10_000):
        polling.park(("T", queue_id), 0, HOUR_S, Call(one.channel, one.command), None)
    polling.arrived([("T", 77, 1)])
    assert [pull.key for pull in woken] == [("T", 77)]
    assert polling.count == 9_999
    polling.close()


def test_a_deadline_that_has_passed_is_no_trouble() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def run() -> int:
        polling = LongPolling(lambda _pull, _timed_out: True)
        one = call()
        for timeout_s in (-1.0, 0.0, HOUR_S, -1.0):
            polling.park(QUEUE, 0, timeout_s, Call(one.channel, one.command), None)
        await asyncio.sleep(0.01)
        left = polling.count
        polling.close()
        return left

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run()) == 1
