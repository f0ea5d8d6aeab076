"""Channels and the pool: calls in both directions, time limits, lost connections."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.errors import PeerRefused, PeerTimeout, PeerUnreachable
from cometmq.net.channel import Channel
from cometmq.net.pool import Pool, connect, split_address, split_addresses
from cometmq.net.routes import Routes
from cometmq.net.server import bind
from cometmq.wire.codes import FLAG_RESPONSE
from cometmq.wire.command import Command, encode_command
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply

from .support import UNKNOWN_CODE, Answers, run, serving, until


def test_many_calls_at_once() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            answers = await asyncio.gather(*(channel.call(GetMaxOffset("T", n)) for n in range(200)))
            assert [OffsetReply.read(answer.ext).offset for answer in answers] == list(range(200))
            channel.close()

    run(test())


def test_refused_call() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            with pytest.raises(PeerRefused, match=f"{running.address} answered code 17: no such topic") as refused:
                await channel.call(GetMaxOffset("refused", 0))
            assert (refused.value.code, refused.value.remark) == (17, "no such topic")
            channel.close()

    run(test())


def test_no_answer_in_time() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            with pytest.raises(PeerTimeout, match="within 50 ms"):
                await channel.call(GetMaxOffset("never", 0), timeout_ms=50)
            assert not channel._waiting
            running.answers.held[0].reply(OffsetReply(1))  # too late: dropped
            assert (await channel.call(GetMaxOffset("T", 2))).ext == {"offset": "2"}
            channel.close()

    run(test())


def test_connection_lost_while_waiting() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            calls = [asyncio.create_task(channel.call(GetMaxOffset("never", n))) for n in range(3)]
            await until(lambda: len(running.answers.held) == 3)
            for held in list(running.server.channels):
                held.close()
            for call in calls:
                with pytest.raises(PeerUnreachable, match="was lost"):
                    await call
            assert not channel.is_open
            with pytest.raises(PeerUnreachable, match="is closed"):
                await channel.call(GetMaxOffset("T", 0))
            for call in running.answers.held:
                call.reply(OffsetReply(1))  # nobody there any more: harmless

    run(test())


def test_answer_that_nobody_waits_for() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            await until(lambda: running.server.channels)
            (theirs,) = running.server.channels
            theirs.send(encode_command(Command(0, opaque=999, flag=FLAG_RESPONSE)))
            assert (await channel.call(GetMaxOffset("T", 1))).ext == {"offset": "1"}
            channel.close()

    run(test())


def test_server_calls_client() -> None:
    opened: list[Channel] = []

    async def test() -> None:
        routes, answers = Routes(), Answers()
        routes.add(answers)
        async with serving(opened.append) as running:
            channel = await connect(running.address, on_request=routes.answer)
            await until(lambda: opened)
            there, back = await asyncio.gather(channel.call(GetMaxOffset("T", 1)), opened[0].call(GetMaxOffset("T", 2)))
            assert (there.ext, back.ext) == ({"offset": "1"}, {"offset": "2"})
            assert len(answers.seen) == 1
            channel.close()

    run(test())


def test_client_without_handlers_refuses() -> None:
    opened: list[Channel] = []

    async def test() -> None:
        async with serving(opened.append) as running:
            channel = await connect(running.address)
            await until(lambda: opened)
            assert (await opened[0].exchange(Command(UNKNOWN_CODE))).code == 3
            channel.close()

    run(test())


def test_queued_bytes_leave_before_close() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            channel.notify(GetMaxOffset("T", 1))
            channel.close()
            channel.close()
            channel.notify(GetMaxOffset("T", 2))
            assert await channel.closed == "closed by us"
            await until(lambda: running.answers.seen and not running.server.channels)
            assert running.answers.seen == [GetMaxOffset("T", 1)]

    run(test())


def test_pool_keeps_and_renews() -> None:
    async def test() -> None:
        pool = Pool()
        async with serving() as running:
            first, second = await asyncio.gather(pool.channel(running.address), pool.channel(running.address))
            assert first is second
            first.close()
            third = await pool.channel(running.address)
            assert third is not first
            assert (await third.call(GetMaxOffset("T", 1))).code == 0
            await pool.close()
            assert not third.is_open

    run(test())


def test_nobody_listens() -> None:
    async def test() -> None:
        with bind("127.0.0.1", 0) as sock:  # bound, but not listening
            port = sock.getsockname()[1]
            with pytest.raises(PeerUnreachable, match=f"cannot connect to 127.0.0.1:{port}"):
                await Pool().channel(f"127.0.0.1:{port}")

    run(test())


def test_name_that_cannot_be_one() -> None:
    async def test() -> None:
        with pytest.raises(PeerUnreachable, match="cannot connect"):
            await connect("a" * 100 + ".invalid:9876")

    run(test())


def test_addresses() -> None:
    assert split_address("host:9876") == ("host", 9876)
    assert split_address("[::1]:9876") == ("::1", 9876)
    assert split_addresses("a:1; b:2;") == ["a:1", "b:2"]


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:port", ":x", "host:-1", "host:²", "host:65536", "host:" + "9" * 5000]
)
def test_not_an_address(text: str) -> None:
    with pytest.raises(PeerUnreachable, match="host:port is expected"):
        split_address(text)
