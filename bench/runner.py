"""Rounds: all sides warm, taking turns workload by workload, another one first in each round.

A turn: the side is resumed (the others stay stopped), dirty pages of the turn before are written out, then a driver
process makes the load. So what a side leaves behind costs the others nothing, and what the machine does slowly over
the minutes (heat, neighbours) meets all alike. The side without the extension takes part in the loads of ASYNC_FLUSH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bench import cold, replication, startup
from bench.ask import Asker, create_topic
from bench.machine import ROOT
from bench.replication import ReplicatedSide
from bench.results import Result, Run
from bench.servers import CometStandalone, Side, SideName
from bench.tally import Invalid
from bench.workloads import (
    CATCH_UP,
    CATCH_UP_FILL,
    COLD,
    COLD_FILL,
    IDLE,
    PRELUDE_S,
    QUICK_DURATION_S,
    QUICK_PRELUDE_S,
    QUICK_WARM_UP_S,
    SYNC_MASTER,
    WARM_UP_S,
    WORKLOADS,
    Job,
    Workload,
)

SETTLE_S: Final = 5.0
QUICK_SETTLE_S: Final = 0.5
DRIVER_SLACK_S: Final = 120.0
WARM_UP_ATTEMPTS: Final = 5
TURN_ATTEMPTS: Final = 3


_Name = TypeVar("_Name", bound=str)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def order(sides: tuple[_Name, ...], round_number: int) -> tuple[_Name, ...]:
    """Who comes first changes from round to round."""
    first = (round_number - 1) % max(1, len(sides))
    return sides[first:] + sides[:first]


@dataclass(frozen=True)
class Plan:
    """What is measured and how long."""

    sides: tuple[SideName, ...]
    names: tuple[str, ...]
    rounds: int
    quick: bool
    seed: int
    scratch: Path

    @property
    def pair(self) -> tuple[SideName, ...]:
        """Those who are measured in everything."""
        return tuple(side for side in self.sides if side != "pure")

    def prelude_s(self) -> float:
        return QUICK_PRELUDE_S if self.quick else PRELUDE_S

    def duration_s(self, workload: Workload) -> float:
        return QUICK_DURATION_S if self.quick else workload.duration_s

    def warm_up_s(self, workload: Workload) -> float:
        return QUICK_WARM_UP_S if self.quick else WARM_UP_S[workload.kind]


def measure(plan: Plan, result: Result) -> None:
    """Run everything in the plan; runs are added to the result as they end."""
    if IDLE in plan.names:
        _measure_idle(plan, result)
    if COLD.name in plan.names:
        _measure_cold(plan, result)
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        chosen = [workload for workload in WORKLOADS if workload.flush == flush and workload.name in plan.names]
        if chosen:
            sides = plan.sides if flush == "ASYNC_FLUSH" else plan.pair
            _measure_loads(plan, result, sides, flush, chosen)
    if SYNC_MASTER.name in plan.names:
        _measure_loads(plan, result, plan.pair, "ASYNC_FLUSH", [SYNC_MASTER], replicated=True)
    if CATCH_UP in plan.names:
        _measure_catch_up(plan, result)


# --- loads


def _measure_loads(
    plan: Plan,
    result: Result,
    names: tuple[SideName, ...],
    flush: str,
    workloads: Sequence[Workload],
    *,
    replicated: bool = False,
) -> None:
    with ExitStack() as running:
        sides: dict[SideName, Side] = {}
        for name in names:
            say(f"{name}: start and warm up, {flush}")
            folder = plan.scratch / f"{name}-{workloads[0].name}"
            running.callback(shutil.rmtree, folder, ignore_errors=True)
            side = sides[name] = _side(name, folder, flush, replicated=replicated)
            running.callback(side.kill)
            side.start()
            if isinstance(side, ReplicatedSide):
                side.start_slave()
            _warm_up(plan, side, workloads)
            side.pause()
        for round_number in range(1, plan.rounds + 1):
            for workload in workloads:
                for name in order(names, round_number):
                    values = _turn(plan, sides[name], workload, round_number)
                    result.runs.append(Run(name, round_number, workload.name, values))
                    say(_line(round_number, plan.rounds, workload.name, name, values))


def _side(name: SideName, folder: Path, flush: str, *, replicated: bool) -> Side:
    if replicated:
        return ReplicatedSide(name, folder, flush, replication.SYNC_MASTER)
    return Side(name, folder, flush)


def _warm_up(plan: Plan, side: Side, workloads: Sequence[Workload]) -> None:
    with Asker(side.address) as asker:
        for topic in sorted({workload.topic for workload in workloads}):
            create_topic(asker, topic)
    loads = list(workloads)
    if loads[0].kind != "sends":
        loads.insert(0, WORKLOADS[0])  # pulls need something to read
        with Asker(side.address) as asker:
            create_topic(asker, WORKLOADS[0].topic)
    for workload in loads:
        _warm(Job.of(workload, side.address, 0.0, plan.warm_up_s(workload), plan.seed, side.pids))


def _warm(job: Job) -> None:
    """A cold JVM on a busy machine may answer nothing but "busy" for a while; what is wrong beyond that stays wrong."""
    for _ in range(WARM_UP_ATTEMPTS - 1):
        try:
            _drive(job)
            return
        except Invalid:
            continue
    _drive(job)


def until_valid(turn: Callable[[], dict[str, float]], what: str) -> dict[str, float]:
    """A run that measured nothing is said and made again: a neighbour of the machine must not cost the other rounds."""
    for _ in range(TURN_ATTEMPTS - 1):
        try:
            return turn()
        except Invalid as fault:
            say(f"{what} again, as {fault}")
    return turn()


def _turn(plan: Plan, side: Side, workload: Workload, round_number: int) -> dict[str, float]:
    what = f"round {round_number}/{plan.rounds}  {workload.name:<10} {side.name:<10}"
    return until_valid(partial(_try_turn, plan, side, workload, round_number), what)


def _try_turn(plan: Plan, side: Side, workload: Workload, round_number: int) -> dict[str, float]:
    side.resume()
    try:
        os.sync()
        job = Job.of(
            workload, side.address, plan.prelude_s(), plan.duration_s(workload), plan.seed + round_number, side.pids
        )
        return _drive(job)
    finally:
        side.pause()


def _drive(job: Job) -> dict[str, float]:
    timeout_s = job.prelude_s + job.duration_s + DRIVER_SLACK_S
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.driver"], cwd=ROOT, input=job.to_json(), stdout=subprocess.PIPE, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Invalid(f"the driver of {job.kind} did not end within {timeout_s:g} s") from None
    if not done.stdout.strip():
        raise Invalid(f"the driver of {job.kind} ended with exit code {done.returncode} and said nothing")
    values: dict[str, float] = json.loads(done.stdout)
    if "fault" in values:
        raise Invalid(f"{job.kind}: {values['fault']}")
    return values


# --- a reader far behind


def _measure_cold(plan: Plan, result: Result) -> None:
    """Each side fills a log, and before each round it is started anew on a log that nobody has in memory."""
    with ExitStack() as running:
        sides: dict[SideName, Side] = {}
        for name in plan.pair:
            say(f"{name}: fill a log to be read cold")
            folder = plan.scratch / f"cold-{name}"
            running.callback(shutil.rmtree, folder, ignore_errors=True)
            side = sides[name] = Side(name, folder)
            running.callback(side.kill)
            side.start()
            with Asker(side.address) as asker:
                create_topic(asker, COLD.topic)
            _warm(Job.of(COLD_FILL, side.address, 0.0, plan.duration_s(COLD_FILL), plan.seed, side.pids))
            side.stop()
        for round_number in range(1, plan.rounds + 1):
            for name in order(plan.pair, round_number):
                what = f"round {round_number}/{plan.rounds}  {COLD.name:<10} {name:<10}"
                values = until_valid(partial(_cold_turn, plan, sides[name], round_number), what)
                result.runs.append(Run(name, round_number, COLD.name, values))
                say(_line(round_number, plan.rounds, COLD.name, name, values))


def _cold_turn(plan: Plan, side: Side, round_number: int) -> dict[str, float]:
    cold.drop_pages(side.broker.store / "commitlog")
    side.start()
    try:
        seed = plan.seed + round_number
        return _drive(Job.of(COLD, side.address, plan.prelude_s(), plan.duration_s(COLD), seed, side.pids))
    finally:
        side.stop()


# --- a slave that starts empty


def _measure_catch_up(plan: Plan, result: Result) -> None:
    with ExitStack() as running:
        sides: dict[SideName, ReplicatedSide] = {}
        for name in plan.pair:
            say(f"{name}: fill a log to be copied")
            folder = plan.scratch / f"catch-up-{name}"
            running.callback(shutil.rmtree, folder, ignore_errors=True)
            side = sides[name] = ReplicatedSide(name, folder, "ASYNC_FLUSH")
            running.callback(side.kill)
            side.start()
            _fill_to_copy(plan, side)
            side.pause()
        for round_number in range(1, plan.rounds + 1):
            for name in order(plan.pair, round_number):
                sides[name].resume()
                os.sync()
                values = replication.catch_up(sides[name])
                sides[name].pause()
                result.runs.append(Run(name, round_number, CATCH_UP, values))
                say(_line(round_number, plan.rounds, CATCH_UP, name, values))


def _fill_to_copy(plan: Plan, side: ReplicatedSide) -> None:
    size = replication.QUICK_LOG_SIZE if plan.quick else replication.LOG_SIZE
    with Asker(side.address) as asker:
        create_topic(asker, CATCH_UP_FILL.topic)
        while replication.log_end(asker) < size:
            _warm(Job.of(CATCH_UP_FILL, side.address, 0.0, plan.duration_s(CATCH_UP_FILL), plan.seed, side.pids))


# --- start-up and idle memory


def _measure_idle(plan: Plan, result: Result) -> None:
    for round_number in range(1, plan.rounds + 1):
        for name in order(plan.pair, round_number):
            _add_idle(plan, result, round_number, Side(name, plan.scratch / f"idle-{name}-{round_number}"))
        if "comet" in plan.pair:
            folder = plan.scratch / f"idle-standalone-{round_number}"
            _add_idle(plan, result, round_number, CometStandalone(folder))


def _add_idle(plan: Plan, result: Result, round_number: int, server: Side | CometStandalone) -> None:
    os.sync()
    try:
        if isinstance(server, Side):
            took_s, pids = startup.start_side(server), server.pids
        else:
            took_s, pids = startup.start_standalone(server), (server.pid,)
        time.sleep(QUICK_SETTLE_S if plan.quick else SETTLE_S)  # what is measured is that nothing happens
        values = {"startup_s": round(took_s, 3), "memory_mb": startup.anonymous_mb(pids)}
    finally:
        server.kill()
    name = server.name if isinstance(server, Side) else "standalone"
    result.runs.append(Run(name, round_number, IDLE, values))
    say(_line(round_number, plan.rounds, IDLE, name, values))


def _line(round_number: int, rounds: int, workload: str, side: str, values: dict[str, float]) -> str:
    shown = (
        "startup_s", "memory_mb", "rate_per_s", "p50_ms", "p99_ms", "worst_ms", "early", "alone_p99_ms", "slowdown",
        "mib", "mib_per_s", "busy", "driver_cpu", "server_cpu",
    )  # fmt: skip
    numbers = "  ".join(f"{key} {values[key]:,g}" for key in shown if values.get(key))
    return f"round {round_number}/{rounds}  {workload:<10} {side:<10} {numbers}"
