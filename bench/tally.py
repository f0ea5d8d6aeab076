"""What one run of a load counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from bench.cpu import CpuMeter


class Invalid(Exception):
    """A run whose numbers may not be used: something was refused, lost or answered twice."""


@dataclass
class Tally:
    """The measured span, CPU in cores kept busy; the totals also count what came before and after it."""

    messages: int
    elapsed_s: float
    rate_per_s: float
    p50_ms: float
    p99_ms: float
    busy: int
    driver_cpu: float
    server_cpu: float
    per_cpu_s: float
    acknowledged_total: int = 0
    busy_total: int = 0
    worst_ms: float = 0.0
    early: int = 0
    alone_p99_ms: float = 0.0
    slowdown: float = 0.0

    @classmethod
    def of(cls, messages: int, elapsed_s: float, latencies_ns: Sequence[int], busy: int, cpu: CpuMeter) -> Self:
        if not latencies_ns:
            raise Invalid(f"nothing was acknowledged in {elapsed_s:.1f} s")
        driver_cpu, server_cpu = cpu.cores_used()
        return cls(
            messages=messages,
            elapsed_s=round(elapsed_s, 4),
            rate_per_s=round(messages / elapsed_s, 1),
            p50_ms=percentile_ms(latencies_ns, 0.50),
            p99_ms=percentile_ms(latencies_ns, 0.99),
            busy=busy,
            driver_cpu=driver_cpu,
            server_cpu=server_cpu,
            per_cpu_s=round(messages / (elapsed_s * server_cpu), 1) if server_cpu else 0.0,
        )


def percentile_ms(values_ns: Sequence[int], share: float) -> float:
    """The value that `share` of all stay at or below, in milliseconds."""
    ordered = sorted(values_ns)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e6, 4)
