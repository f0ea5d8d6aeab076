"""Tables that are kept in memory and saved as a whole.

A change only marks the table; `persist` writes it, once for all changes since the last time. Who calls it, and when:

- an admin handler before it answers, and the send path before it acknowledges: what was promised survives a kill.
  All topics made in one turn of the loop cost one save, so a burst of them does not rewrite the table each time;
- a slave that has taken over its master's topics, groups or request modes: it may be started again without a master;
- the app's ticker, for what may be lost with little harm (offsets, groups that the next heartbeat makes again);
- the app at close.

Changes are counted, and a save remembers how many it holds only when it is done: one that failed, was cancelled or
still waits for its thread leaves the next `persist` its work.

Mirrors: ConfigManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from threading import Lock
from typing import Any, Protocol

from cometmq.errors import StoreError

log = logging.getLogger("cometmq.broker")

_NOT_THE_TABLE = (AttributeError, TypeError, ValueError, OverflowError)


class Table(Protocol):
    """A JSON file of the store: `store.tables.TableFile`."""

    path: str
    warning: str | None  # why an older copy was taken

    def load(self) -> dict[str, Any] | None:
        """What the file holds, keys as text; None where there is no file."""

    def load_backup(self, why: str) -> dict[str, Any]:
        """The copy before; raises if there is none."""

    def save(self, table: dict[str, Any]) -> object:
        """Replace the file, all or nothing."""


class Saved:
    """The base of a state class with a table of its own."""

    def __init__(self, table: Table, snapshot: Callable[[], dict[str, Any]]) -> None:
        self._table = table
        self._snapshot = snapshot
        self._unknown: dict[str, Any] = {}
        self._saving = Lock()
        self._changes = 0
        self._saved_changes = 0

    def load(self, read: Callable[[dict[str, Any]], None]) -> bool:
        """Let `read` take what was saved, and say whether anything was; what it has no name for is kept for the next
        save."""
        found = self._table.load()
        if found is None:
            return False
        try:
            read(found)
        except _NOT_THE_TABLE as broken:
            found = self._table.load_backup(f"{self._table.path} is JSON, but not the table it should be: {broken}")
            try:
                read(found)
            except _NOT_THE_TABLE as broken_too:
                raise StoreError(
                    f"{self._table.path} and the copy before it are JSON, but not the table they should be: "
                    f"{broken_too}; restore one of the two, or move both away to start without them"
                ) from None
        if self._table.warning is not None:
            log.warning("%s", self._table.warning)
        known = self._snapshot()
        self._unknown = {key: value for key, value in found.items() if key not in known}
        return True

    @property
    def unsaved(self) -> bool:
        return self._changes > self._saved_changes

    def mark(self) -> None:
        """Something has changed."""
        self._changes += 1

    def persist(self) -> bool:
        """Save if anything has changed; says whether it had to."""
        if not self.unsaved:
            return False
        self._save(*self._take())
        return True

    async def persist_aside(self, thread: Executor | None = None) -> None:
        """The same, with the file work in a thread, the loop's own if none is given: for tables that change often."""
        if self.unsaved:
            await asyncio.get_running_loop().run_in_executor(thread, self._save, *self._take())

    def _take(self) -> tuple[int, dict[str, Any]]:
        return self._changes, {**self._unknown, **self._snapshot()}

    def _save(self, changes: int, table: dict[str, Any]) -> None:
        with self._saving:
            if changes > self._saved_changes:  # else a newer one overtook this one on its way through the thread
                self._table.save(table)
                self._saved_changes = changes
