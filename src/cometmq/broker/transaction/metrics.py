"""How many transactions of each topic are open: the file `transactionMetrics`, shown by admin tools.

Counted as Java counts, so it is a hint, not a truth: what a kill takes away from the file nobody counts again.

Mirrors: TransactionMetrics.
"""

from __future__ import annotations

from typing import Any

from cometmq.broker.saved import Saved, Table
from cometmq.clock import Clock
from cometmq.model.data_version import DataVersion


class TransactionMetrics(Saved):
    """Open transactions by the topic they are meant for."""

    def __init__(self, table: Table, clock: Clock) -> None:
        super().__init__(table, self.to_json)
        self._clock = clock
        self._counts: dict[str, tuple[int, int]] = {}  # count, since when
        self.data_version = DataVersion(timestamp_ms=clock.now_ms())
        self.load(self._read)

    def _read(self, saved: dict[str, Any]) -> None:
        for topic, fields in (saved.get("transactionCount") or {}).items():
            self._counts[topic] = int(fields.get("count", 0)), int(fields.get("timeStamp", 0))
        if "dataVersion" in saved:
            self.data_version = DataVersion.from_json(saved["dataVersion"])

    def to_json(self) -> dict[str, Any]:
        return {
            "dataVersion": self.data_version.to_json(),
            "transactionCount": {
                topic: {"count": count, "timeStamp": since} for topic, (count, since) in self._counts.items()
            },
        }

    def count_of(self, topic: str) -> int:
        return self._counts.get(topic, (0, 0))[0]

    def add(self, topic: str, change: int) -> None:
        """One more, or one fewer, is open."""
        now_ms = self._clock.now_ms()
        self._counts[topic] = self.count_of(topic) + change, now_ms
        self.data_version.advance(now_ms)
        self.mark()
