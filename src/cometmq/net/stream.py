"""A connection that carries plain bytes, for protocols without frames of ours: the one between master and slave.

Whoever uses it is called on the event loop: `on_data` for what came, `on_writable` when a full peer takes more again,
`on_close` once, at the end. What waits to be sent is bounded by its user, who looks at `is_writable`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, cast

from cometmq.errors import PeerUnreachable
from cometmq.net.pool import split_address

HIGH_WATER: Final = 4 * 1024 * 1024  # bytes that wait for the peer


class Stream(asyncio.Protocol):
    """One connection; set the three callbacks when it is made."""

    def __init__(self, on_open: Callable[[Stream], None] | None = None) -> None:
        self._on_open = on_open
        self._transport: asyncio.Transport | None = None
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_writable: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None
        self.is_writable = True
        self.host, self.peer = "?", "?"
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.host, self.peer = str(name[0]), f"{name[0]}:{name[1]}"
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        self.on_data(data)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_writable = False
        if not self.closed.done():
            self.closed.set_result(None)
            self.on_close()

    def send(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Send now."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(pieces)

    def read(self, reading: bool) -> None:
        """Take what the peer sends, or let it wait."""
        if self._transport is not None and not self._transport.is_closing():
            if reading and not self._transport.is_reading():
                self._transport.resume_reading()
            elif not reading and self._transport.is_reading():
                self._transport.pause_reading()

    def close(self) -> None:
        """Drop the connection and what waits to be sent."""
        if self._transport is not None:
            self._transport.abort()


async def listen(sock: socket.socket, on_open: Callable[[Stream], None]) -> asyncio.Server:
    """Serve on a bound socket; the caller closes what this returns."""
    return await asyncio.get_running_loop().create_server(lambda: Stream(on_open), sock=sock, backlog=128)


async def connect(address: str, *, timeout_s: float) -> Stream:
    """A connection to `host:port`; raises `PeerUnreachable`."""
    host, port = split_address(address)
    try:
        async with asyncio.timeout(timeout_s):
            _, stream = await asyncio.get_running_loop().create_connection(Stream, host, port)
    except TimeoutError:
        raise PeerUnreachable(f"{address} did not answer within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as refused:
        raise PeerUnreachable(f"cannot connect to {address}: {refused}") from None
    return stream
