"""Bodies of records as they were before they were compressed.

A body that cannot be unpacked raises `ProtocolError` with its place; or, where there is somebody to `say` it to, its
row has none.
"""

from __future__ import annotations

from collections.abc import Callable

from cometmq.client.compression import decompress
from cometmq.errors import ProtocolError

Say = Callable[[str], None]


class Unpacker:
    """What a walk calls for each compressed body."""

    def __init__(self, say: Say | None = None) -> None:
        self._say = say
        self._spoilt: set[int] = set()
        self.rows: Callable[[], int] = int  # how many rows the walk has, which is the number of the one to come

    def __call__(self, body: bytes, sys_flag: int, topic: bytes, queue: int, offset: int) -> bytes:
        try:
            return decompress(body, sys_flag)
        except ProtocolError as broken:
            where = f"{topic.decode('utf-8', 'replace')}, queue {queue}, offset {offset}"
            if self._say is None:
                raise ProtocolError(
                    f"{where}: {broken}. With failOnDataLoss=false its row has no body, with includeBody=false it is "
                    "not looked at"
                ) from None
            self._say(f"{where}: {broken}; its row has no body")
            self._spoilt.add(self.rows())
            return b""

    def take(self, rows: int) -> list[int]:
        """Which of these rows have no body; it begins anew."""
        found = sorted(row for row in self._spoilt if row < rows)
        self._spoilt.clear()
        return found
