"""The numbers that are compared: where each comes from, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["java", "comet", "pure", "standalone", "kafka"]


@dataclass(frozen=True)
class Metric:
    """One number of a run. `comet` says whose runs stand for CometMQ."""

    key: str
    label: str
    unit: str
    workload: str
    field: str
    higher_is_better: bool
    comet: Source = "comet"


METRICS = (
    Metric("sends", "Sends, 1 KiB, pipelined", "msg/s", "sends", "rate_per_s", True),
    Metric("sends_p99", "Sends, pipelined, p99", "ms", "sends", "p99_ms", False),
    Metric("sends_per_cpu", "Sends per second of server CPU", "msg/s", "sends", "per_cpu_s", True),
    Metric("pulls", "Pulls, 32 a time", "msg/s", "pulls", "rate_per_s", True),
    Metric("pops", "Pops, 32 a time, each acknowledged", "msg/s", "pops", "rate_per_s", True),
    Metric("batches", "Batch sends, 32 × 1 KiB", "msg/s", "batches", "rate_per_s", True),
    Metric("latency_p50", "One send in flight, p50", "ms", "latency", "p50_ms", False),
    Metric("latency_p99", "One send in flight, p99", "ms", "latency", "p99_ms", False),
    Metric("delivery_p50", "Producer to consumer at 1,000 msg/s, p50", "ms", "delivery", "p50_ms", False),
    Metric("delivery_p99", "Producer to consumer at 1,000 msg/s, p99", "ms", "delivery", "p99_ms", False),
    Metric("timers_p99", "100,000 timers in 5 s: how late, p99", "ms", "timers", "p99_ms", False),
    Metric("timers_worst", "100,000 timers in 5 s: how late, worst", "ms", "timers", "worst_ms", False),
    Metric("timers_early", "100,000 timers in 5 s: delivered early", "messages", "timers", "early", False),
    Metric("cold_p99", "Sends beside a reader of cold data, p99", "ms", "cold", "p99_ms", False),
    Metric("cold_slowdown", "The same, in units of the p99 without the reader", "×", "cold", "slowdown", False),
    Metric("sync_sends", "Sends, pipelined, SYNC_FLUSH", "msg/s", "sync_sends", "rate_per_s", True),
    Metric("sync_sends_p99", "The same, p99", "ms", "sync_sends", "p99_ms", False),
    Metric(
        "sync_master",
        "Sends, pipelined, SYNC_MASTER with one slave, both ASYNC_FLUSH",
        "msg/s",
        "sync_master",
        "rate_per_s",
        True,
    ),
    Metric("sync_master_p99", "The same, p99", "ms", "sync_master", "p99_ms", False),
    Metric("catch_up", "An empty slave catches up", "MiB/s", "catch_up", "mib_per_s", True),
    Metric("memory", "Idle memory, NameServer + broker", "MB", "idle", "memory_mb", False),
    Metric("memory_standalone", "Idle memory, standalone", "MB", "idle", "memory_mb", False, "standalone"),
    Metric("startup", "Start to first acknowledged message", "s", "idle", "startup_s", False),
    Metric("startup_standalone", "The same, standalone", "s", "idle", "startup_s", False, "standalone"),
)
BY_KEY = {metric.key: metric for metric in METRICS}
