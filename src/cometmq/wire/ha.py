"""The stream between a master and its slaves, without the socket.

    slave → master    report     offset 8                        how far the slave's log reaches; the first one asks
    master → slave    transfer   offset 8 | size 4 | bytes       raw bytes of the log; size 0 is a heartbeat

The size of a transfer is bounded by what Java's slave can hold, 4 MiB with the head, and no transfer crosses the end of
a file of the master's log.

    CometMQ's own, in place of the first report; only sent to a master that said it understands it
    slave → master    hello      0xC3 | version 1 | flags 1 | 0 | broker id 4      flag 1: send from the log's beginning

As a number a hello is negative, which no report is. A report follows it.

Mirrors: DefaultHAConnection, DefaultHAClient.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from cometmq.errors import ProtocolError

TRANSFER_SIZE_MAX: Final = 4 * 1024 * 1024 - 12
EXTENSION_VERSION: Final = 1

_REPORT: Final = Struct(">q")
_HEAD: Final = Struct(">qi")
_HELLO: Final = Struct(">BBBBI")
_HELLO_MARK: Final = 0xC3
_FROM_FIRST: Final = 0x1


class Hello(NamedTuple):
    """Who a CometMQ slave is, and what it wants; an empty one wants everything."""

    broker_id: int
    from_first: bool


def encode_report(offset: int) -> bytes:
    return _REPORT.pack(offset)


def encode_hello(hello: Hello) -> bytes:
    flags = _FROM_FIRST if hello.from_first else 0
    return _HELLO.pack(_HELLO_MARK, EXTENSION_VERSION, flags, 0, hello.broker_id)


def encode_transfer_head(offset: int, size: int) -> bytes:
    return _HEAD.pack(offset, size)


class ReportDecoder:
    """A master's ear: `feed` gives what the slave said, a hello or offsets, in order."""

    def __init__(self) -> None:
        self._rest = b""
        self._first = True

    def feed(self, data: bytes) -> list[Hello | int]:
        """Raises `ProtocolError` for what no slave says; the stream ends there."""
        data = self._rest + data
        whole = len(data) - len(data) % _REPORT.size
        self._rest = data[whole:]
        said: list[Hello | int] = []
        for (number,) in _REPORT.iter_unpack(data[:whole]):
            if number >= 0:
                said.append(number)
            elif self._first:
                said.append(_read_hello(_REPORT.pack(number)))
            else:
                raise ProtocolError(f"a slave reports the offset {number}")
            self._first = False
        return said


def _read_hello(data: bytes) -> Hello:
    mark, version, flags, zero, broker_id = _HELLO.unpack(data)
    if mark != _HELLO_MARK or version != EXTENSION_VERSION or zero:
        raise ProtocolError(f"what connects is no slave: its first bytes are {data.hex()}")
    return Hello(broker_id, bool(flags & _FROM_FIRST))


class TransferDecoder:
    """A slave's ear: `feed` gives whole transfers (offset, bytes); a cut one is never given."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = _HEAD.size  # bytes until something can be said

    def feed(self, data: bytes) -> Iterator[tuple[int, memoryview]]:
        """Take all that this gives. Raises `ProtocolError` at a length that no master sends; the stream ends there."""
        self._pieces.append(data)
        self._held += len(data)
        if self._held < self._wanted:
            return
        view = memoryview(b"".join(self._pieces) if len(self._pieces) > 1 else data)
        at, end = 0, len(view)
        self._wanted = _HEAD.size
        while end - at >= _HEAD.size:
            offset, size = _HEAD.unpack_from(view, at)
            if offset < 0 or not 0 <= size <= TRANSFER_SIZE_MAX:
                raise ProtocolError(f"the master sends {size} bytes for offset {offset}: what connects is no master")
            if end - at < _HEAD.size + size:
                self._wanted = _HEAD.size + size
                break
            at += _HEAD.size
            yield offset, view[at : at + size]
            at += size
        self._pieces = [bytes(view[at:])] if at < end else []
        self._held = end - at
