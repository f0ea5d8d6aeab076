"""Parked pulls cost what those cost that are still waited for."""

from __future__ import annotations

import asyncio

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
