"""What the tests of the broker's state share: a clock that stands still, a table in memory, tables on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cometmq.errors import StoreError
from cometmq.store.fs import OsFs
from cometmq.store.tables import TableFile
from cometmq.wire import fastjson


class StillClock:
    """Moves only when told to."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


class MemoryTable:
    """A table that goes through JSON text as a file would, and counts its saves."""

    def __init__(self, path: str = "memory.json") -> None:
        self.path = path
        self.warning: str | None = None
        self.saves = 0
        self._text: bytes | None = None

    def load(self) -> dict[str, Any] | None:
        return None if self._text is None else fastjson.loads(self._text)  # type: ignore[no-any-return]

    def load_backup(self, why: str) -> dict[str, Any]:
        raise StoreError(why)

    def save(self, table: dict[str, Any]) -> None:
        self._text = fastjson.dumps(table)
        self.saves += 1


def file_table(path: Path) -> TableFile:
    return TableFile(OsFs(), str(path))
