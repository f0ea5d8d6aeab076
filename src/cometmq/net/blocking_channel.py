"""A connection without an event loop: requests out, answers back, in the thread that asks.

For processes that do one thing at a time, such as the tasks of Spark. Any number of requests may be under way: `ask`
sends, `answer` waits for one of them and keeps what comes before it. After a fault the connection is closed and
stays so; who wants another makes a new one.

Mirrors: NettyRemotingClient, less Netty.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from struct import Struct
from typing import Final

from cometmq.errors import PeerRefused, PeerTimeout, PeerUnreachable, ProtocolError
from cometmq.net.pool import refusal_text, split_address
from cometmq.net.tls import Tls
from cometmq.wire.codes import FLAG_RESPONSE, FRAME_SIZE_MAX, ResponseCode
from cometmq.wire.command import Command, decode_command, encode_command
from cometmq.wire.schema import Header
from cometmq.wire.signing import Credentials

_LENGTH: Final = Struct(">i")
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_GO_AWAY: Final = int(ResponseCode.GO_AWAY)
_READ_AHEAD: Final = 256 * 1024
UNDER_WAY_MAX: Final = 256


class BlockingChannel:
    """One connection; not for several threads at once."""

    def __init__(
        self,
        address: str,
        *,
        timeout_ms: int = 3_000,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.peer = address
        self._credentials = credentials
        host, port = split_address(address)
        context = tls.context() if tls is not None else None
        try:
            plain = self._socket = socket.create_connection((host, port), timeout_ms / 1000)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(plain, server_hostname=host)
        except (OSError, UnicodeError) as refused:
            raise PeerUnreachable(refusal_text(address, refused, tls)) from None
        self._in = self._socket.makefile("rb", _READ_AHEAD)
        self._opaque = 0
        self._early: dict[int, Command] = {}
        self._waited_for: set[int] = set()
        self.is_open = True

    def close(self) -> None:
        self.is_open = False
        self._in.close()
        self._socket.close()

    def ask(self, *requests: Header) -> list[int]:
        """Send requests in one write; returns the numbers that their answers are asked for with."""
        if not self.is_open:
            raise PeerUnreachable(f"the connection to {self.peer} is closed")
        if len(self._waited_for) + len(requests) > UNDER_WAY_MAX:
            raise ProtocolError(f"more than {UNDER_WAY_MAX} requests under way to {self.peer}")
        frames = []
        numbers = []
        for request in requests:
            command = request.command()
            self._opaque = command.opaque = (self._opaque + 1) & 0x7FFFFFFF
            numbers.append(command.opaque)
            if self._credentials is not None:
                self._credentials.sign(command)
            frames.append(encode_command(command))
        self._waited_for.update(numbers)
        try:
            self._socket.sendall(b"".join(frames))
        except OSError as lost:
            self.close()
            raise PeerUnreachable(f"the connection to {self.peer} was lost: {lost}") from None
        return numbers

    def forget(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        self._waited_for.discard(number)
        self._early.pop(number, None)

    def answer(self, number: int, *, timeout_ms: int = 3_000) -> Command:
        """The answer to one request, whatever its code is."""
        found = self._early.pop(number, None)
        if found is None:
            found = self._read_until(number, timeout_ms)
        self._waited_for.discard(number)
        if found.code == _GO_AWAY:
            self.close()
            raise PeerUnreachable(f"{self.peer} is about to stop and asked us to go")
        return found

    def _read_until(self, number: int, timeout_ms: int) -> Command:
        try:
            self._socket.settimeout(timeout_ms / 1000)
            while True:
                command = decode_command(self._frame())
                if not command.flag & FLAG_RESPONSE:
                    continue  # requests of a server are for clients that registered with it
                if command.opaque == number:
                    return command
                if command.opaque in self._waited_for:
                    self._early[command.opaque] = command
        except TimeoutError:
            self.close()
            raise PeerTimeout(f"{self.peer} did not answer within {timeout_ms} ms") from None
        except (OSError, ValueError) as lost:  # the latter: closed
            self.close()
            raise PeerUnreachable(f"the connection to {self.peer} was lost: {lost}") from None
        except ProtocolError:
            self.close()
            raise

    def _frame(self) -> bytes:
        (size,) = _LENGTH.unpack(self._exactly(4))
        if not 4 <= size <= FRAME_SIZE_MAX:
            raise ProtocolError(f"a frame of {size} bytes from {self.peer}")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data: bytes = self._in.read(size)
        if len(data) < size:
            raise ConnectionResetError("closed by the peer")
        return data

    def call(self, request: Header, *, timeout_ms: int = 3_000) -> Command:
        """Ask and wait; an answer other than success is raised as `PeerRefused`."""
        return self.call_all([request], timeout_ms=timeout_ms)[0]

    def call_all(self, requests: Sequence[Header], *, timeout_ms: int = 3_000) -> list[Command]:
        """The answers to many requests, which are under way together; the first refusal is raised."""
        found = self.ask_all(requests, timeout_ms=timeout_ms)
        for answer in found:
            if answer.code != _SUCCESS:
                raise PeerRefused(answer.code, answer.remark or "", self.peer)
        return found

    def ask_all(self, requests: Sequence[Header], *, timeout_ms: int = 3_000) -> list[Command]:
        """The same, whatever the answers are."""
        found: list[Command] = []
        for at in range(0, len(requests), UNDER_WAY_MAX):
            numbers = self.ask(*requests[at : at + UNDER_WAY_MAX])
            found += [self.answer(number, timeout_ms=timeout_ms) for number in numbers]
        return found
