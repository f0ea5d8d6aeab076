"""What is measured, as data: the loads, how they are shaped, and the numbers that are taken from each."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal, Self

BODY_SIZE = 1024
QUEUES = 8  # one digit each, so that all frames of a load have one size
BATCH_COUNT = 32
PULL_COUNT = 32
RECENT_COUNT = 8_192  # pulls go round in the newest messages of each queue, which both sides hold in memory

Kind = Literal["sends", "latency", "batches", "pulls", "delivery", "timers", "cold", "pops"]


@dataclass(frozen=True)
class Workload:
    """A load. `window` requests are in flight on each connection, written `chunk` at a time."""

    name: str
    kind: Kind
    topic: str
    connections: int
    window: int
    chunk: int
    duration_s: float
    flush: str = "ASYNC_FLUSH"


WORKLOADS = (
    Workload("sends", "sends", "bench-sends", connections=4, window=64, chunk=16, duration_s=5.0),
    Workload("latency", "latency", "bench-sends", connections=1, window=1, chunk=1, duration_s=3.0),
    Workload("batches", "batches", "bench-batches", connections=4, window=4, chunk=1, duration_s=3.0),
    Workload("pulls", "pulls", "bench-sends", connections=4, window=8, chunk=1, duration_s=4.0),
    Workload("pops", "pops", "bench-sends", connections=4, window=1, chunk=1, duration_s=3.0),
    Workload("delivery", "delivery", "bench-delivery", connections=2, window=1, chunk=1, duration_s=5.0),
    Workload("timers", "timers", "bench-timers", connections=1, window=1, chunk=1, duration_s=5.0),
    Workload("sync_sends", "sends", "bench-sends", 4, 64, 16, duration_s=3.0, flush="SYNC_FLUSH"),
)
SYNC_MASTER = Workload("sync_master", "sends", "bench-sends", 4, 64, 16, duration_s=3.0)
CATCH_UP = "catch_up"  # a slave that starts empty: not a load either
CATCH_UP_FILL = Workload("catch_up", "batches", "bench-catch-up", connections=4, window=4, chunk=1, duration_s=1.0)
COLD = Workload("cold", "cold", "bench-cold", connections=1, window=1, chunk=1, duration_s=2.0)
COLD_FILL = Workload("cold", "batches", "bench-cold", connections=4, window=4, chunk=1, duration_s=8.0)
IDLE = "idle"  # start-up and idle memory: not a load, but chosen by name like one
NAMES = (*(workload.name for workload in WORKLOADS), SYNC_MASTER.name, CATCH_UP, COLD.name, IDLE)

PRELUDE_S = 1.0  # the same load before the clock starts: the side was paused, its caches are cold
WARM_UP_S = {"sends": 12.0, "latency": 3.0, "batches": 5.0, "pulls": 6.0, "delivery": 4.0, "timers": 0.5, "pops": 4.0}
QUICK_DURATION_S = 0.5
QUICK_PRELUDE_S = 0.3
QUICK_WARM_UP_S = 0.5


@dataclass(frozen=True)
class Job:
    """One run of a load, as the driver process is told it."""

    kind: Kind
    address: str
    topic: str
    connections: int
    window: int
    chunk: int
    prelude_s: float
    duration_s: float
    seed: int
    pids: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, workload: Workload, address: str, prelude_s: float, duration_s: float, seed: int, pids: tuple[int, ...]
    ) -> Self:
        return cls(
            workload.kind, address, workload.topic, workload.connections, workload.window, workload.chunk,
            prelude_s, duration_s, seed, pids,
        )  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        return cls(**{**fields, "pids": tuple(fields["pids"])})
