"""Outgoing connections, one per address, made when first needed and again after they were lost.

Mirrors: NettyRemotingClient.
"""

from __future__ import annotations

import asyncio
from typing import Final

from cometmq.errors import PeerUnreachable
from cometmq.net.channel import Channel, RequestSink
from cometmq.net.routes import Routes

_REFUSE_ALL: RequestSink = Routes().answer  # of a connection that only asks: every code is unknown to it

_PORT_MAX: Final = 65_535
RETIRE_S: Final = 5.0


def split_address(address: str) -> tuple[str, int]:
    """`host:port`, or `[v6]:port`, as two values."""
    host, separator, port = address.strip().rpartition(":")
    if not separator or not host or "/" in host or not port.isdecimal() or len(port) > 5 or int(port) > _PORT_MAX:
        raise PeerUnreachable(f"{address!r} is not an address: host:port is expected")
    return host.strip("[]"), int(port)


def split_addresses(text: str) -> list[str]:
    """`a:9876;b:9876` as a list."""
    return [part.strip() for part in text.split(";") if part.strip()]


async def connect(address: str, *, on_request: RequestSink = _REFUSE_ALL, timeout_ms: int = 3_000) -> Channel:
    """Open one connection."""
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            _, channel = await loop.create_connection(lambda: Channel(on_request, reads_always=True), host, port)
    except TimeoutError:
        raise PeerUnreachable(f"{address} did not accept a connection within {timeout_ms} ms") from None
    except (OSError, UnicodeError) as refused:  # the latter for a name that no resolver can be asked for
        raise PeerUnreachable(f"cannot connect to {address}: {refused}") from None
    return channel


class Pool:
    """Channels by address."""

    def __init__(self, *, on_request: RequestSink = _REFUSE_ALL) -> None:
        self._on_request = on_request
        self._channels: dict[str, Channel] = {}
        self._retired: set[Channel] = set()
        self._locks: dict[str, asyncio.Lock] = {}

    async def channel(self, address: str, *, timeout_ms: int = 3_000) -> Channel:
        """The open connection to `address`, made now if there is none."""
        found = self._channels.get(address)
        if found is not None and found.is_open:
            return found
        async with self._locks.setdefault(address, asyncio.Lock()):
            found = self._channels.get(address)
            if found is None or not found.is_open:
                found = await connect(address, on_request=self._on_request, timeout_ms=timeout_ms)
                self._channels[address] = found
        return found

    def get(self, address: str) -> Channel | None:
        """The open connection, if there is one."""
        found = self._channels.get(address)
        return found if found is not None and found.is_open else None

    def retire(self, address: str, channel: Channel) -> None:
        """Use this connection for nothing new; what waits on it may still be answered."""
        if self._channels.get(address) is channel:
            del self._channels[address]
            self._retired.add(channel)
            channel.closed.add_done_callback(lambda _: self._retired.discard(channel))
            asyncio.get_running_loop().call_later(RETIRE_S, channel.close, "the peer asked us to go")

    async def close(self) -> None:
        for channel in [*self._channels.values(), *self._retired]:
            channel.close()
        self._channels.clear()
