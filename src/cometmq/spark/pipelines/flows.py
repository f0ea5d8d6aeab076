"""What the flows of a run do: the state that events and the progress of batches are put together into (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from cometmq.errors import CometError
from cometmq.spark.offsets import StreamOffset

_STATE: Final = re.compile(r"^Flow (\S+) (?:is|has) ([A-Z_]+)")
_FAILED: Final = re.compile(r"^(?:Failed to resolve flow|Flow)[: ]+'?([\w.`]*[\w`])'?.*?Error: (.*)", re.DOTALL)
ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELED", "TERMINATED", "STOPPED", "VALID"})  # states of a run
_ACTIVE: Final = frozenset({"PLANNING", "STARTING", "RUNNING"})  # states of a flow
_RUN: Final = re.compile(r"^Run (?:is|has) ([A-Z_]+)")


@dataclass(slots=True)
class Flow:
    """One flow."""

    name: str
    state: str = "QUEUED"
    rows: int = 0
    batches: int = 0
    rows_per_s: float = 0.0
    batch_ms: int = 0
    lag: dict[str, int] = field(default_factory=dict)  # messages that wait, by topic
    fault: str = ""


class Flows:
    """All flows of a run, in the order they were heard of."""

    def __init__(self) -> None:
        self.flows: dict[str, Flow] = {}
        self.run_state = "STARTING"

    def _flow(self, name: str) -> Flow:
        short = name.rpartition(".")[2].strip("`'")
        return self.flows.setdefault(short, Flow(short))

    def hear_event(self, message: str) -> None:
        """A line of the run's log."""
        failed = _FAILED.match(message)
        if failed is not None:
            flow = self._flow(failed[1])
            flow.state, flow.fault = "FAILED", failed[2]
            return
        state = _STATE.match(message)
        if state is not None:
            self._flow(state[1]).state = state[2]
            return
        run = _RUN.match(message)
        if run is not None:
            self.run_state = run[1]

    def hear_progress(self, progress: Mapping[str, Any]) -> None:
        """A batch that is done, as Spark tells it."""
        if not progress.get("name"):
            return
        flow = self._flow(str(progress["name"]))
        flow.batches += 1
        rows = int(progress.get("numInputRows") or 0)
        flow.rows += rows
        if rows or flow.batches == 1:  # one without rows, as there may be at the end, says nothing of how fast it goes
            flow.rows_per_s = float(progress.get("processedRowsPerSecond") or 0)
            flow.batch_ms = int((progress.get("durationMs") or {}).get("triggerExecution") or 0)
        for source in progress.get("sources") or []:
            flow.lag.update(lag_of(source))

    def end_vain(self, is_lasting: Callable[[str], bool]) -> bool:
        """Whether all that is left are flows that failed and would fail again; then they count as failed."""
        doomed = [flow for flow in self.flows.values() if flow.state != "COMPLETED" and is_lasting(flow.fault)]
        others = {flow.state for flow in self.flows.values() if flow not in doomed}
        if not doomed or others & _ACTIVE:
            return False
        if "QUEUED" in others and not any(flow.state in _ACTIVE for flow in doomed):
            return False  # it may be its turn now; when a doomed one is, it waits for that
        for flow in doomed:
            flow.state = "FAILED"
        return True

    def stop(self) -> None:
        """The run was broken off."""
        self.run_state = "CANCELED"
        for flow in self.flows.values():
            if flow.state in _ACTIVE or flow.state == "QUEUED":
                flow.state = "STOPPED"

    @property
    def failed(self) -> list[Flow]:
        return [flow for flow in self.flows.values() if flow.state == "FAILED"]


def lag_of(source: Mapping[str, Any]) -> dict[str, int]:
    """Messages of each topic that a source of ours has not read yet; nothing of other sources."""
    try:
        ends, latest = (StreamOffset.read(_offset(source.get(name))).ends for name in ("endOffset", "latestOffset"))
    except (CometError, orjson.JSONDecodeError, TypeError, ValueError, AttributeError):
        return {}
    found: dict[str, int] = {}
    for queue, offset in latest.items():
        topic = str(queue.topic)
        found[topic] = found.get(topic, 0) + max(0, offset - ends.get(queue, 0))
    return found


def _offset(given: object) -> object:
    """Spark gives offsets as JSON, or as text that holds it."""
    return orjson.loads(given) if isinstance(given, str) else given
