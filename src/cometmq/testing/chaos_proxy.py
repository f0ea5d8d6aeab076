"""A TCP proxy that misbehaves on command: what the network does to a client, at the byte where it hurts.

    async with ChaosProxy(broker_address) as proxy:         # clients connect to proxy.address
        proxy.cut()                                         # all connections, now
        proxy.cut_after(17)                                 # when 17 more bytes have passed, in whatever direction
        proxy.cut_often(random.Random(1), 10, 5_000)        # again and again, each time after some bytes of that range
        proxy.delay_s = 0.2                                 # of every byte, in each direction
        proxy.swallows = True                               # a black hole: everything is taken, nothing comes out
        proxy.refuses = True                                # new connections are closed at once
        proxy.behave()

Clients follow the address that a broker advertises, so `brokerIP1` must lead to the proxy: `host="127.0.0.2"` with the
broker's own port does on Linux, where all of 127.0.0.0/8 is this machine.

Invariants: bytes come out in the order they went in, each once; a cut lets exactly the bytes before it through; at most
`HELD_MAX` bytes wait here per direction.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, cast

from cometmq.net.pool import split_address

HELD_MAX: Final = 4 * 1024 * 1024


class ChaosProxy:
    """Stands before one address. `port=0` is a free one."""

    def __init__(self, target: str, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._target = split_address(target)
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._next_gap: Callable[[], int] | None = None
        self._until_cut: int | None = None
        self.delay_s = 0.0
        self.swallows = False
        self.refuses = False
        self.cuts = 0
        self.accepted = 0
        self.passed_size = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Link(self).near, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connecting:
            task.cancel()
        if self._connecting:
            await asyncio.wait(self._connecting)
        for link in list(self._links):
            link.cut()
        await asyncio.sleep(0)

    @property
    def address(self) -> str:
        """Where clients connect to."""
        return f"{self._host}:{self._port}"

    @property
    def connections(self) -> int:
        return len(self._links)

    def behave(self) -> None:
        """From now on do what a proxy does; what was swallowed stays swallowed."""
        self.delay_s, self.swallows, self.refuses = 0.0, False, False
        self._until_cut, self._next_gap = None, None

    def cut(self) -> None:
        """Cut all connections."""
        self.cuts += 1
        for link in list(self._links):
            link.cut()

    def cut_after(self, size: int) -> None:
        """Cut the connection over which the `size`-th byte from now passes, right behind that byte."""
        self._until_cut, self._next_gap = size, None

    def cut_often(self, chance: random.Random, low: int, high: int) -> None:
        """Cut after `low` to `high` bytes, and go on so."""
        self._next_gap = lambda: chance.randint(low, high)
        self._until_cut = self._next_gap()

    # --- what links ask

    def admit(self, size: int) -> tuple[int, bool]:
        """How many of these bytes may pass, and whether the connection ends behind them."""
        is_cut = self._until_cut is not None and size >= self._until_cut
        if self._until_cut is not None:
            size = min(size, self._until_cut)
            self._until_cut -= size
        self.passed_size += size
        if is_cut:
            self.cuts += 1
            self._until_cut = None if self._next_gap is None else self._next_gap()
        return size, is_cut

    def opened(self, link: _Link) -> None:
        self.accepted += 1
        if self.refuses:
            link.cut()
            return
        self._links.add(link)
        task = asyncio.get_running_loop().create_task(self._connect(link))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, link: _Link) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: link.far, *self._target)
        except OSError:
            link.cut()

    def closed(self, link: _Link) -> None:
        self._links.discard(link)


class _Link:
    """One connection through the proxy: the end near to the client, and the far one."""

    def __init__(self, proxy: ChaosProxy) -> None:
        self.proxy = proxy
        self.near = _End(self)
        self.far = _End(self)
        self.near.other, self.far.other = self.far, self.near
        self.is_cut = False

    def cut(self, last: _End | None = None) -> None:
        """End both sides at once; `last` may still send what it was given."""
        self.is_cut = True
        for end in (self.near, self.far):
            if end.transport is not None:
                end.transport.close() if end is last else end.transport.abort()
        self.proxy.closed(self)


class _End(asyncio.Protocol):
    """One side. What it reads leaves by the other, when its time has come."""

    def __init__(self, link: _Link) -> None:
        self.link = link
        self.other: _End = self
        self.transport: asyncio.Transport | None = None
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_size = 0
        self._is_timed = False
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.link.is_cut:
            self.transport.abort()
        elif self is self.link.near:
            self.link.proxy.opened(self.link)
        else:
            self.other._pump()

    def data_received(self, data: bytes) -> None:
        if self.link.proxy.swallows:
            return
        loop = asyncio.get_running_loop()
        self._held.append((loop.time() + self.link.proxy.delay_s, data))
        self._held_size += len(data)
        if self._held_size > HELD_MAX and self.transport is not None:
            self.transport.pause_reading()
        self._pump()

    def _pump(self) -> None:
        """Let out what is due, in order."""
        loop = asyncio.get_running_loop()
        out = self.other.transport
        while self._held and out is not None and not self.link.is_cut:
            due, data = self._held[0]
            if due > loop.time():
                if not self._is_timed:
                    self._is_timed = True
                    loop.call_at(due, self._timed)
                return
            self._held.popleft()
            self._held_size -= len(data)
            size, is_cut = self.link.proxy.admit(len(data))
            out.write(data[:size])
            if is_cut:
                self.link.cut(self.other)
                return
        if self._held_size <= HELD_MAX // 2 and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        if self._has_ended and not self._held and out is not None:
            out.close()

    def _timed(self) -> None:
        self._is_timed = False
        self._pump()

    def pause_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        if exc is not None or self.other.transport is None:
            self.link.cut()
        else:
            self._pump()  # what was read before the end still leaves
        self.link.proxy.closed(self.link)
