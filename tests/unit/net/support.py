"""A small server and a raw socket for the tests of the net floor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from cometmq.errors import RequestRefused
from cometmq.net.channel import Channel
from cometmq.net.routes import DONE, LATER, Call, Later, Routes, handles
from cometmq.net.server import Server, bind
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Command, decode_command
from cometmq.wire.frame import FrameDecoder
from cometmq.wire.requests.consume import GetMaxOffset, GetMinOffset, OffsetReply, UpdateConsumerOffset
from cometmq.wire.schema import Header

TEST_TIMEOUT_S = 20.0


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run one test's coroutine, bounded in time."""

    async def bounded() -> None:
        async with asyncio.timeout(TEST_TIMEOUT_S):
            await test

    asyncio.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until the condition holds."""
    while not condition():  # noqa: ASYNC110 (conditions are of many kinds)
        await asyncio.sleep(0.005)


class Answers:
    """Handlers of each kind: at once, refused, failing, later, slow, never."""

    def __init__(self) -> None:
        self.seen: list[Header] = []
        self.held: list[Call] = []

    @handles(GetMaxOffset)
    def max_offset(self, request: GetMaxOffset, call: Call) -> Header | Later:
        self.seen.append(request)
        match request.topic:
            case "refused":
                raise RequestRefused("TOPIC_NOT_EXIST", "no such topic")
            case "broken":
                raise ZeroDivisionError("oops")
            case "later":
                call.reply(OffsetReply(7))
                call.reply(OffsetReply(8))  # only the first counts
                return LATER
            case "never":
                self.held.append(call)
                return LATER
            case "large":
                size = request.queue_id
                call.reply_parts(OffsetReply(0), [b"x" * (size // 2), memoryview(b"y" * (size - size // 2))], size)
                return LATER
        return OffsetReply(request.queue_id)

    @handles(GetMinOffset)
    async def min_offset(self, request: GetMinOffset, call: Call) -> Header:
        await asyncio.sleep(0)
        if request.topic == "refused":
            raise RequestRefused("TOPIC_NOT_EXIST", "no such topic")
        return OffsetReply(request.queue_id)

    @handles(UpdateConsumerOffset)
    def update(self, request: UpdateConsumerOffset, call: Call) -> Header:
        self.seen.append(request)
        return DONE


class Running:
    """What a test sees of its server."""

    def __init__(self, server: Server, answers: Answers, port: int) -> None:
        self.server = server
        self.answers = answers
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self._raws: list[Raw] = []

    async def raw(self) -> Raw:
        """A new connection; it is closed when the server is."""
        self._raws.append(Raw(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self._raws[-1]

    async def close(self) -> None:
        await self.server.close()
        for raw in self._raws:
            raw.writer.close()
            with suppress(ConnectionError):
                await raw.writer.wait_closed()
        await asyncio.sleep(0.01)  # lets closed transports give their sockets back


class Raw:
    """A peer that writes and reads bytes as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = FrameDecoder()

    async def commands(self, count: int) -> list[Command]:
        found: list[Command] = []
        while len(found) < count:
            data = await self.reader.read(1 << 16)
            assert data, f"closed after {len(found)} of {count} commands"
            found += [decode_command(bytes(frame)) for frame in self._decoder.feed(data)]
        return found

    async def closed(self) -> bytes:
        """Whatever still arrives before the peer closes."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def serving(
    on_open: Callable[[Channel], None] | None = None, on_close: Callable[[Channel], None] | None = None, **limits: Any
) -> AsyncIterator[Running]:
    answers = Answers()
    routes = Routes()
    routes.add(answers)
    server = Server(routes.answer, on_open=on_open, on_close=on_close, **limits)
    sock = bind("127.0.0.1", 0)
    await server.listen(sock)
    running = Running(server, answers, sock.getsockname()[1])
    try:
        yield running
    finally:
        await running.close()
        await routes.close()


UNKNOWN_CODE = 32_000
assert UNKNOWN_CODE not in set(RequestCode)
