"""Which walk fills the columns: the compiled one where it was built, else its pure-Python twin."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol
from zlib import crc32

from cometmq import compiled
from cometmq.client.compression import decompress
from cometmq.columns.walk import LONG_MAX, LONG_MIN, Buffers, Walk
from cometmq.errors import ProtocolError
from cometmq.model import properties
from cometmq.wire.record import Buffer, host_text


class Walks(Protocol):
    """What both twins do; `walk.Walk` says how."""

    @property
    def rows(self) -> int: ...

    @property
    def size(self) -> int: ...

    def add(
        self,
        data: Buffer,
        at: int = 0,
        stop: int = -1,
        base: int = -1,
        start_offset: int = LONG_MIN,
        end_offset: int = LONG_MAX,
    ) -> tuple[int, int, int]: ...

    def take(self) -> tuple[int, dict[str, Buffers]]: ...


def make_walk(
    columns: Sequence[str],
    *,
    topics: Container[bytes] | None = None,
    from_ms: int = LONG_MIN,
    until_ms: int = LONG_MAX,
    check_crc: bool = False,
    pure: bool = False,
) -> Walks:
    """A walk; `pure` asks for the Python one."""
    if pure or compiled.twins is None:
        return Walk(columns, _unpack, topics=topics, from_ms=from_ms, until_ms=until_ms, check_crc=check_crc)
    walk: Walks = compiled.twins.Walk(
        columns, _unpack, host_text, properties.parse, crc32, topics, from_ms, until_ms, check_crc
    )
    return walk


def _unpack(body: bytes, sys_flag: int, topic: bytes, queue: int, offset: int) -> bytes:
    try:
        return decompress(body, sys_flag)
    except ProtocolError as broken:
        where = f"{topic.decode('utf-8', 'replace')}, queue {queue}, offset {offset}"
        raise ProtocolError(f"{where}: {broken}") from None
