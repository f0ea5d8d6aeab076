"""What the extension offers; the pure twins have the same faces."""

from collections.abc import Callable, Container, Sequence
from typing import Any

from cometmq.columns.walk import Buffers, Unpack
from cometmq.wire.record import Buffer

class Walk:
    rows: int
    size: int

    def __init__(
        self,
        columns: Sequence[str],
        unpack: Unpack,
        host_text: Callable[[bytes], str],
        parse: Callable[[str], dict[str, str]],
        crc32: Callable[[Any], int],
        topics: Container[bytes] | None,
        from_ms: int,
        until_ms: int,
        check_crc: bool,
    ) -> None: ...
    def add(
        self,
        data: Buffer,
        at: int = 0,
        stop: int = -1,
        base: int = -1,
        start_offset: int = ...,
        end_offset: int = ...,
    ) -> tuple[int, int, int]: ...
    def take(self) -> tuple[int, dict[str, Buffers]]: ...
