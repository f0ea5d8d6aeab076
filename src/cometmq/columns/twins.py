"""Which walk fills the columns: the compiled one where it was built, else its pure-Python twin."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol
from zlib import crc32

from cometmq import compiled
from cometmq.columns.bodies import Unpacker
from cometmq.columns.walk import LONG_MAX, LONG_MIN, Buffers, Walk
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
    unpack: Unpacker | None = None,
    topics: Container[bytes] | None = None,
    from_ms: int = LONG_MIN,
    until_ms: int = LONG_MAX,
    check_crc: bool = False,
    pure: bool = False,
) -> Walks:
    """A walk; `pure` asks for the Python one."""
    unpack = unpack or Unpacker()
    walk: Walks
    if pure or compiled.twins is None:
        walk = Walk(columns, unpack, topics=topics, from_ms=from_ms, until_ms=until_ms, check_crc=check_crc)
    else:
        walk = compiled.twins.Walk(
            columns, unpack, host_text, properties.parse, crc32, topics, from_ms, until_ms, check_crc
        )
    unpack.rows = lambda: walk.rows
    return walk
