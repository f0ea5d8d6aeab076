"""The chaos proxy does what it is told, to the byte."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from cometmq.testing.chaos_proxy import ChaosProxy


@asynccontextmanager
async def echo(**options: str) -> AsyncIterator[ChaosProxy]:
    answering = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(asyncio.current_task())
        with suppress(ConnectionError):
            while data := await reader.read(1000):
                writer.write(data)
                await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(20), ChaosProxy(f"127.0.0.1:{port}", **options) as proxy:
        yield proxy
    server.close()
    await asyncio.gather(*answering)


async def connect(proxy: ChaosProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = proxy.address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Everything until the end, however that comes."""
    found = b""
    with suppress(ConnectionError):
        while data := await reader.read(100_000):
            found += data
    return found


async def test_a_plain_proxy() -> None:
    async with echo() as proxy:
        reader, writer = await connect(proxy)
        sent = random.Random(1).randbytes(3_000_000)
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        assert (proxy.connections, proxy.passed_size, proxy.cuts) == (1, 2 * len(sent), 0)
        writer.close()


@pytest.mark.parametrize("at", [1, 9, 10, 11, 19, 20])
async def test_cut_at_a_byte(at: int) -> None:
    async with echo() as proxy:
        reader, writer = await connect(proxy)
        proxy.cut_after(at)
        writer.write(b"0123456789")
        assert await rest_of(reader) == b"0123456789"[: max(0, at - 10)]
        assert (proxy.cuts, proxy.passed_size) == (1, at)
        writer.close()
        reader, writer = await connect(proxy)  # the next one lives
        writer.write(b"again")
        assert await reader.readexactly(5) == b"again"
        writer.close()


async def test_cut_now_and_often() -> None:
    async with echo() as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"1")
        await reader.readexactly(1)
        proxy.cut()
        assert await rest_of(reader) == b""
        writer.close()
        proxy.cut_often(random.Random(7), 1, 30)
        for _ in range(20):
            reader, writer = await connect(proxy)
            writer.write(b"x" * 60)
            await rest_of(reader)
            writer.close()
        assert proxy.cuts == 21
        proxy.behave()
        reader, writer = await connect(proxy)
        writer.write(b"x" * 60)
        assert len(await reader.readexactly(60)) == 60
        writer.close()


async def test_delay_black_hole_and_refusal() -> None:
    async with echo(host="127.0.0.2") as proxy:
        loop = asyncio.get_running_loop()
        reader, writer = await connect(proxy)
        proxy.delay_s = 0.1
        begun = loop.time()
        for number in range(10):
            writer.write(b"%d" % number)
            await asyncio.sleep(0)
        assert await reader.readexactly(10) == b"0123456789"
        assert loop.time() - begun >= 0.2
        proxy.behave()
        proxy.swallows = True
        writer.write(b"lost")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        proxy.behave()
        writer.write(b"found")
        assert await reader.readexactly(5) == b"found"
        proxy.refuses = True
        other, other_writer = await connect(proxy)
        assert await rest_of(other) == b""
        writer.close()
        other_writer.close()
