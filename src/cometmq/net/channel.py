"""One connection, seen from either end: requests out, replies back, and the replies we owe.

Output of one turn of the event loop leaves in one write: `send` collects, `flush` writes.
A peer that does not read is not read from either (`pause_reading`), so what is queued for it stays bounded
by the transport's high-water mark plus the replies to what it had already sent.

Mirrors: NettyRemotingAbstract.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final, Protocol, cast

from cometmq.errors import PeerRefused, PeerTimeout, PeerUnreachable, ProtocolError
from cometmq.wire.codes import FLAG_ONE_WAY, FLAG_RESPONSE, FRAME_SIZE_MAX, ResponseCode
from cometmq.wire.command import Body, Command, decode_command, encode_command
from cometmq.wire.frame import FrameDecoder
from cometmq.wire.record import pack_host
from cometmq.wire.schema import Header
from cometmq.wire.signing import Credentials

_SUCCESS: Final = int(ResponseCode.SUCCESS)

CLOSE_GRACE_S: Final = 3.0

JOIN_SIZE_MAX: Final = 256 * 1024  # up to here one copy is cheaper than many small buffers,
PIECE_SIZE_MIN: Final = 8 * 1024  # which those are not that are as large as this, taken together

RequestSink = Callable[["Channel", Command], None]
Lane = Callable[["Channel", memoryview, int], int]  # takes frames whole; see `FrameDecoder.feed`


class Waiter(Protocol):
    """Who waits for an answer: a future, or something cheaper that looks like one."""

    def done(self) -> bool: ...

    def set_result(self, answer: Command, /) -> None: ...

    def set_exception(self, lost: PeerUnreachable, /) -> None: ...


class Channel(asyncio.Protocol):
    """A connection that carries commands. Make it as the protocol of a transport, not directly."""

    def __init__(
        self,
        on_request: RequestSink,
        *,
        on_open: Callable[[Channel], None] | None = None,
        on_close: Callable[[Channel], None] | None = None,
        on_kept: Callable[[int], None] | None = None,
        frame_size_max: int = FRAME_SIZE_MAX,
        reads_always: bool = False,
        lane: Lane | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._on_request = on_request
        self._credentials = credentials
        self._lane = lane
        self._reads_always = reads_always
        self._on_open = on_open
        self._on_close = on_close
        self._decoder = FrameDecoder(frame_size_max, on_kept)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._listens = True
        self.is_writable = True  # the peer takes what is sent to it
        self._writable: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] | None = None
        self._out: list[Body] = []
        self._waiting: dict[int, Waiter] = {}
        self._opaques = itertools.count(1)
        self.peer = "?"
        self.peer_host = bytes(8)  # packed, as records store it
        self.last_read = self._loop.time()
        self.closed: asyncio.Future[str] = self._loop.create_future()

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            ip, port = name[:2]
            if ":" not in (inner := ip.removeprefix("::ffff:")):
                ip = inner  # version 4 over a socket of version 6: Java sees version 4
            self.peer_host = pack_host(ip, port)
            self.peer = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        self.last_read = self._loop.time()
        try:
            for frame in self._decoder.feed(data, self._skip if self._lane is not None else None):
                command = decode_command(frame)
                if command.flag & FLAG_RESPONSE:
                    self._resolve(command)
                else:
                    self._on_request(self, command)
        except ProtocolError as broken:
            self.close(f"bytes that cannot be trusted: {broken}")

    def _skip(self, view: memoryview, at: int) -> int:
        return at if self._lane is None else self._lane(self, view, at)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        self._finish(str(exc) if exc else "closed by the peer")
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def pause_writing(self) -> None:
        self.is_writable = False
        # A client goes on reading: were both ends to wait for the other to read, neither would ever.
        if self._transport is not None and not self._reads_always:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_writable = True
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None
        if self._reads_always:
            return
        if self._transport is not None and self._listens and not self._transport.is_closing():
            self._transport.resume_reading()

    # --- what the floors above call

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self.closed.done()

    @property
    def unfinished_frame(self) -> tuple[int, int]:
        """Size of the frame that has arrived in part, 0 if there is none, and a number that tells it from the next."""
        return self._decoder.unfinished, self._decoder.begun_count

    @property
    def kept_size(self) -> int:
        """How many bytes of that frame have arrived."""
        return self._decoder.kept_size

    def send(self, *buffers: Body) -> None:
        """Queue bytes; what one turn of the loop queued leaves together."""
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.extend(buffers)

    def send_now(self, buffers: list[Body]) -> None:
        """`send`, for who knows that nothing more comes in this turn."""
        self._out += buffers
        self.flush()

    def flush(self) -> None:
        """Let what is queued leave now."""
        out, self._out = self._out, []
        if not out or self._transport is None or self._transport.is_closing():
            return
        if len(out) == 1:
            self._transport.write(out[0])
        elif sum(map(len, out)) <= min(JOIN_SIZE_MAX, PIECE_SIZE_MIN * len(out)):
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)

    async def call(self, request: Header, body: Body = b"", *, timeout_ms: int = 3_000) -> Command:
        """Ask, and wait for the answer. An answer other than success is raised as `PeerRefused`."""
        answer = await self.exchange(request.command(body), timeout_ms=timeout_ms)
        if answer.code != _SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "", self.peer)
        return answer

    async def exchange(self, command: Command, *, timeout_ms: int = 3_000) -> Command:
        """Send a command and return whatever the peer answers."""
        if not self.is_open:
            raise PeerUnreachable(f"the connection to {self.peer} is closed")
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        if self._credentials is not None:
            self._credentials.sign(command)
        waiter: asyncio.Future[Command] = self._loop.create_future()
        self._waiting[command.opaque] = waiter
        self.send(encode_command(command))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await waiter
        except TimeoutError:
            raise PeerTimeout(f"{self.peer} did not answer code {command.code} within {timeout_ms} ms") from None
        finally:
            self._waiting.pop(command.opaque, None)

    def next_opaque(self) -> int:
        """The number of the next request, for who encodes it himself."""
        return next(self._opaques) & 0x7FFFFFFF

    def ask(self, opaque: int, waiter: Waiter, *frame: Body) -> None:
        """Send an encoded request; its answer goes to `waiter`. Who asks this way keeps the time himself."""
        self._waiting[opaque] = waiter
        self.send(*frame)

    def forget(self, opaque: int) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.pop(opaque, None)

    @property
    def is_idle(self) -> bool:
        """Whether no answer is awaited."""
        return not self._waiting

    async def writable(self) -> None:
        """Wait until the peer takes what is sent to it, or is gone."""
        while not self.is_writable and not self.closed.done():
            if self._writable is None:
                self._writable = self._loop.create_future()
            await asyncio.shield(self._writable)

    def notify(self, request: Header, body: Body = b"") -> None:
        """Send a request that nobody answers."""
        command = request.command(body)
        command.flag |= FLAG_ONE_WAY
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        if self._credentials is not None:
            self._credentials.sign(command)
        self.send(encode_command(command))

    def _resolve(self, answer: Command) -> None:
        waiter = self._waiting.pop(answer.opaque, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def hand_on(self, instead: Callable[[RequestSink], RequestSink]) -> None:
        """Let what `instead` makes of the answerer answer from now on, all of it."""
        self._on_request, self._lane = instead(self._on_request), None

    def stop_reading(self) -> None:
        """Take no more requests; the answers that are owed still leave."""
        self._listens = False
        if self._transport is not None:
            self._transport.pause_reading()

    def close(self, why: str = "closed by us") -> None:
        """Send what is queued, then close; what the peer does not take within `CLOSE_GRACE_S` is dropped."""
        if self._transport is not None and not self._transport.is_closing():
            self.flush()
            self._transport.close()
            if self._transport.get_write_buffer_size():
                # A peer that does not read would keep the socket and what is queued for it forever.
                self._loop.call_later(CLOSE_GRACE_S, self._transport.abort)
        self._finish(why)

    async def gone(self, within_s: float) -> None:
        """Wait until the socket of a closed connection is closed too: one with TLS takes its leave first."""
        if self._transport is None:
            return
        self._gone = self._loop.create_future()
        try:
            async with asyncio.timeout(within_s):
                await self._gone
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    def _finish(self, why: str) -> None:
        if self.closed.done():
            return
        self.closed.set_result(why)
        self._decoder.drop()
        lost = PeerUnreachable(f"the connection to {self.peer} was lost: {why}")
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(lost)
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None
        if self._on_close is not None:
            self._on_close(self)
