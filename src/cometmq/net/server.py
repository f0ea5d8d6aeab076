"""A listening socket and its connections, with the limits that keep strangers from costing much.

Idle connections are closed after `idle_s`, those that went silent in the middle of a frame after `unfinished_s`, and
those whose frame comes more slowly than `SLOWEST_BYTES_S`; one sweep looks at all of them, so a connection costs no
timer. What has arrived of unfinished frames is at most `UNFINISHED_BYTES_MAX` over all connections: beyond it those
that hold the most are closed.

Mirrors: NettyRemotingServer.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from cometmq.errors import ConfigError
from cometmq.net.channel import Channel, Lane, RequestSink

log = logging.getLogger("cometmq.net")

IDLE_S: Final = 120.0
UNFINISHED_S: Final = 10.0
SLOWEST_BYTES_S: Final = 32 * 1024  # so fast a frame must come, once `unfinished_s` have passed
UNFINISHED_BYTES_MAX: Final = 256 * 1024 * 1024
SWEEP_S: Final = 5.0
CONNECTIONS_MAX: Final = 10_000


def bind(host: str, port: int) -> socket.socket:
    """A bound, not yet listening socket; says in words why it could not be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as refused:
        sock.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {_why_not(refused)}") from None
    return sock


def _why_not(refused: OSError | OverflowError) -> str:
    if isinstance(refused, OverflowError):
        return "a port is a number from 0 to 65535"
    if isinstance(refused, socket.gaierror):
        return f"{refused.strerror}. Give an address of this machine, 0.0.0.0 for all of them"
    hint = {
        errno.EADDRINUSE: "Another process is there: stop it, or choose another port",
        errno.EADDRNOTAVAIL: "It is no address of this machine: choose one that is, 0.0.0.0 for all of them",
        errno.EACCES: "Ports below 1024 are for the system: choose another one",
    }.get(refused.errno or 0)
    return f"{refused.strerror}. {hint}" if hint else str(refused)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    return host == "localhost" or host.startswith(("127.", "::1"))


def bind_group(host: str, port: int, shifts: Iterable[int]) -> list[socket.socket]:
    """Sockets on port + each shift, all or none; port 0 searches for a free group."""
    shifts = list(shifts)
    if port:
        return _bind_all(host, port, shifts)
    refused: ConfigError | None = None
    for _ in range(64):
        probe = bind(host, 0)
        free = probe.getsockname()[1] + 2  # never so low that a shift leaves the range
        probe.close()
        try:
            return _bind_all(host, free, shifts)
        except ConfigError as error:
            refused = error
    raise ConfigError(f"no free group of ports on {host}: {refused}")


def _bind_all(host: str, port: int, shifts: list[int]) -> list[socket.socket]:
    bound: list[socket.socket] = []
    try:
        for shift in shifts:
            bound.append(bind(host, port + shift))  # noqa: PERF401 (what is bound must be known if a later one fails)
    except ConfigError:
        for sock in bound:
            sock.close()
        raise
    return bound


def outward_ip(bind_address: str) -> str:
    """The local address that packets to other machines would carry; asks the routing table, sends nothing."""
    family, target = (socket.AF_INET6, "2001:db8::1") if bind_address == "::" else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "::1" if family is socket.AF_INET6 else "127.0.0.1"


async def ip_of(host: str) -> str:
    """The address behind a name, one of version 4 if there is any, as Java chooses; an address is its own."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as unknown:
        raise ConfigError(f"{host} is neither an address nor a name that can be looked up: {unknown}") from None
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


class Server:
    """Accepts connections on one or more sockets and hands their requests to a sink."""

    def __init__(
        self,
        on_request: RequestSink,
        *,
        on_open: Callable[[Channel], None] | None = None,
        on_close: Callable[[Channel], None] | None = None,
        connections_max: int = CONNECTIONS_MAX,
        idle_s: float = IDLE_S,
        unfinished_s: float = UNFINISHED_S,
        unfinished_bytes_max: int = UNFINISHED_BYTES_MAX,
    ) -> None:
        self._on_request = on_request
        self.lane: Lane | None = None  # offered what comes, before requests are made of it
        self._on_open = on_open
        self._on_close = on_close
        self._connections_max = connections_max
        self._idle_s = idle_s
        self._unfinished_s = unfinished_s
        self._unfinished_bytes_max = unfinished_bytes_max
        self._unfinished_bytes = 0  # at most so many: frames that were finished since are still counted
        self._sweep_s = min(SWEEP_S, idle_s / 2, unfinished_s / 2)
        self._servers: list[asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._unfinished: dict[Channel, tuple[int, float]] = {}  # which frame, and when a sweep first saw it
        self._drained: Callable[[RequestSink], RequestSink] | None = None
        self._closing = False
        self.channels: set[Channel] = set()

    async def listen(self, sock: socket.socket, on_request: RequestSink | None = None) -> None:
        """Serve on a bound socket, whose requests may go to a sink of their own."""
        loop = asyncio.get_running_loop()
        accept = partial(self._accept, on_request or self._on_request)
        self._servers.append(await loop.create_server(accept, sock=sock, backlog=1024))
        if self._sweep is None:
            self._sweep = loop.call_later(self._sweep_s, self._close_idle)

    def _accept(self, on_request: RequestSink) -> Channel:
        channel = Channel(on_request, on_open=self._opened, on_close=self._closed, on_kept=self._kept, lane=self.lane)
        if self._drained is not None:
            channel.hand_on(self._drained)
        return channel

    def _opened(self, channel: Channel) -> None:
        if self._closing:  # it was accepted before we closed
            channel.close("the server stops")
            return
        if len(self.channels) >= self._connections_max:
            log.warning("refused %s: %d connections are open, the most allowed", channel.peer, len(self.channels))
            channel.close("too many connections")
            return
        self.channels.add(channel)
        if self._on_open is not None:
            self._on_open(channel)

    def _closed(self, channel: Channel) -> None:
        if channel in self.channels:
            self.channels.remove(channel)
            if self._on_close is not None:
                self._on_close(channel)

    def _kept(self, size: int) -> None:
        self._unfinished_bytes += size
        if self._unfinished_bytes > self._unfinished_bytes_max:
            self._unfinished_bytes = sum(channel.kept_size for channel in self.channels)
            while self._unfinished_bytes > self._unfinished_bytes_max:
                self._close_largest()

    def _close_largest(self) -> None:
        largest = max(self.channels, key=lambda channel: (channel.kept_size, -channel.last_read))
        has, needs, total = largest.kept_size, largest.unfinished_frame[0], self._unfinished_bytes
        log.warning(
            "closed %s: it holds %d of the %d bytes of a frame, and all unfinished frames %d of the %d allowed",
            *(largest.peer, has, needs, total, self._unfinished_bytes_max),
        )
        self._unfinished_bytes -= has
        largest.close("unfinished frames take too much memory")

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        seen, self._unfinished = self._unfinished, {}
        for channel in list(self.channels):
            silent_s = now - channel.last_read
            size, number = channel.unfinished_frame
            if silent_s > self._idle_s:
                channel.close(f"silent for {silent_s:.0f} s")
            elif size:
                before = seen.get(channel)
                since = before[1] if before is not None and before[0] == number else now
                if silent_s > self._unfinished_s or now - since > self._unfinished_s + size / SLOWEST_BYTES_S:
                    channel.close(f"a frame was left unfinished for {max(silent_s, now - since):.0f} s")
                else:
                    self._unfinished[channel] = number, since
        self._sweep = loop.call_later(self._sweep_s, self._close_idle)

    async def drain(self, instead: Callable[[RequestSink], RequestSink], wait_s: float) -> None:
        """Let what `instead` makes of a sink meet what still comes, and give clients time to leave by themselves."""
        self._drained, self.lane = instead, None
        for channel in self.channels:
            channel.hand_on(instead)
        await asyncio.sleep(wait_s)

    def stop_taking(self) -> None:
        """Accept no connection and no request any more; connections stay open for the answers that are owed."""
        self._closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        for server in self._servers:
            server.close()
        for channel in self.channels:
            channel.stop_reading()

    async def close(self) -> None:
        """Stop listening and close every connection."""
        self.stop_taking()
        for channel in list(self.channels):
            channel.close("the server stops")
        for server in self._servers:
            await server.wait_closed()
