"""Outgoing connections, one per address, made when first needed and again after they were lost.

Mirrors: NettyRemotingClient.
"""

from __future__ import annotations

import asyncio
from ssl import SSLCertVerificationError
from typing import Final

from cometmq.errors import PeerUnreachable
from cometmq.net.channel import Channel, RequestSink
from cometmq.net.routes import Routes
from cometmq.net.tls import Tls
from cometmq.wire.signing import Credentials

_REFUSE_ALL: RequestSink = Routes().answer  # of a connection that only asks: every code is unknown to it

_PORT_MAX: Final = 65_535
RETIRE_S: Final = 5.0
LEAVE_S: Final = 0.5  # a peer that does not take its leave costs so much at the end


def split_address(address: str) -> tuple[str, int]:
    """`host:port`, or `[v6]:port`, as two values."""
    host, separator, port = address.strip().rpartition(":")
    if not separator or not host or "/" in host or not port.isdecimal() or len(port) > 5 or int(port) > _PORT_MAX:
        raise PeerUnreachable(f"{address!r} is not an address: host:port is expected")
    return host.strip("[]"), int(port)


def split_addresses(text: str) -> list[str]:
    """`a:9876;b:9876` as a list."""
    return [part.strip() for part in text.split(";") if part.strip()]


async def connect(
    address: str,
    *,
    on_request: RequestSink = _REFUSE_ALL,
    timeout_ms: int = 3_000,
    credentials: Credentials | None = None,
    tls: Tls | None = None,
) -> Channel:
    """Open one connection."""
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    context = tls.context() if tls is not None else None

    def made() -> Channel:
        return Channel(on_request, reads_always=True, credentials=credentials)

    try:
        async with asyncio.timeout(timeout_ms / 1000):
            _, channel = await loop.create_connection(made, host, port, ssl=context)
    except TimeoutError:
        raise PeerUnreachable(f"{address} did not accept a connection within {timeout_ms} ms") from None
    except (OSError, UnicodeError) as refused:  # the latter for a name that no resolver can be asked for
        raise PeerUnreachable(refusal_text(address, refused, tls)) from None
    return channel


def refusal_text(address: str, refused: Exception, tls: Tls | None) -> str:
    """Why there is no connection, and what may be the matter."""
    hint = "" if tls is None or isinstance(refused, ConnectionRefusedError) else " (does it speak TLS?)"
    if isinstance(refused, SSLCertVerificationError):
        hint = "; its certificate is not vouched for: see ca_file of Tls"
    return f"cannot connect to {address}: {refused}{hint}"


class Pool:
    """Channels by address."""

    def __init__(
        self,
        *,
        on_request: RequestSink = _REFUSE_ALL,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._on_request = on_request
        self._credentials = credentials
        self._tls = tls
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
                found = await connect(
                    address,
                    on_request=self._on_request,
                    timeout_ms=timeout_ms,
                    credentials=self._credentials,
                    tls=self._tls,
                )
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
        channels = [*self._channels.values(), *self._retired]
        self._channels.clear()
        for channel in channels:
            channel.close()
        await asyncio.gather(*(channel.gone(LEAVE_S) for channel in channels))
