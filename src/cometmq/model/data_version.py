"""The version of a table: how brokers, name servers and slaves see whether a copy is current.

Mirrors: DataVersion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class DataVersion:
    """Grows with each change of the table it belongs to."""

    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0

    def advance(self, now_ms: int) -> None:
        """The table has changed."""
        self.timestamp_ms = now_ms
        self.counter += 1

    def to_json(self) -> dict[str, int]:
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp_ms}

    @classmethod
    def from_json(cls, fields: Any) -> DataVersion:
        """Read leniently: what is missing or not a number is 0."""
        get = fields.get if isinstance(fields, dict) else {}.get

        def number(key: str) -> int:
            value = get(key, 0)
            return value if isinstance(value, int) else 0

        return cls(number("stateVersion"), number("timestamp"), number("counter"))
