"""How many messages wait for each topic: `config/timermetrics`, and the answer to GET_TIMER_METRICS.

    {"dataVersion": …, "timingCount": {topic: {"count": 3, "timeStamp": ms}}}

The counts are for people: they drift by a few where a broker was killed, as in Java.

Mirrors: TimerMetrics.
"""

from __future__ import annotations

from typing import Any

from cometmq.broker.replicated import read_table
from cometmq.broker.saved import Saved, Table
from cometmq.clock import Clock
from cometmq.model.data_version import DataVersion


class TimerMetrics(Saved):
    """Waiting messages by topic."""

    def __init__(self, table: Table, clock: Clock) -> None:
        super().__init__(table, self.to_json)
        self._clock = clock
        self._counts: dict[str, list[int]] = {}  # topic → [count, time of the last change]
        self.data_version = DataVersion(timestamp_ms=clock.now_ms())
        self.load(self._read)

    def _read(self, saved: dict[str, Any]) -> None:
        for topic, metric in (saved.get("timingCount") or {}).items():
            self._counts[topic] = [int(metric.get("count") or 0), int(metric.get("timeStamp") or 0)]
        if "dataVersion" in saved:
            self.data_version = DataVersion.from_json(saved["dataVersion"])

    def follow(self, body: bytes) -> None:
        """Count what the master counts."""
        rows, version = read_table(body, "timingCount")
        if version is None or version == self.data_version:
            return
        self._counts = {
            topic: [int(metric.get("count") or 0), int(metric.get("timeStamp") or 0)]
            for topic, metric in rows.items()
            if isinstance(metric, dict)
        }
        self.data_version = version
        self.mark()

    def add(self, topic: str, count: int, now_ms: int) -> None:
        """`count` messages more, or less, wait for this topic."""
        metric = self._counts.get(topic)
        if metric is None:
            metric = self._counts[topic] = [0, 0]
        metric[0] += count
        metric[1] = now_ms
        self.data_version.advance(now_ms)
        self.mark()

    @property
    def total(self) -> int:
        """Of all topics."""
        return sum(count for count, _ in self._counts.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "dataVersion": self.data_version.to_json(),
            "timingCount": {topic: {"count": count, "timeStamp": at} for topic, (count, at) in self._counts.items()},
        }
