"""Tables that are kept in memory and saved as a whole.

A change only marks the table; `persist` writes it, once for all changes since the last time. Who calls it, and when:

- an admin handler before it answers, and the send path before it acknowledges: what was promised survives a kill.
  All topics made in one turn of the loop cost one save, so a burst of them does not rewrite the table each time;
- the app's ticker, for what may be lost with little harm (offsets, groups that the next heartbeat makes again);
- the app at close.

A save that fails raises and leaves the mark, so that the next `persist` tries again.

Mirrors: ConfigManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Table(Protocol):
    """A JSON file of the store: `store.tables.JsonTable`."""

    def load(self) -> Any | None:
        """What the file holds, keys as text; None where there is no file."""

    def save(self, value: Any) -> None:
        """Replace the file, all or nothing."""


class Saved:
    """The base of a state class with a table of its own."""

    def __init__(self, table: Table, snapshot: Callable[[], Any]) -> None:
        self._table = table
        self._snapshot = snapshot
        self.unsaved = False

    def load(self) -> dict[str, Any]:
        """What was saved; empty where nothing was."""
        found = self._table.load()
        return found if isinstance(found, dict) else {}

    def mark(self) -> None:
        """Something has changed."""
        self.unsaved = True

    def persist(self) -> bool:
        """Save if anything has changed; says whether it had to."""
        if not self.unsaved:
            return False
        self._table.save(self._snapshot())
        self.unsaved = False
        return True
