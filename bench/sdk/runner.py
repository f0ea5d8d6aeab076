"""Rounds: one broker, and one client after the other, the order swapped each round.

The topic that is consumed is filled before; each run has a group of its own, whose offsets are set to the beginning,
since a proxy would let a new group begin with what comes next. The proxy is stopped (SIGSTOP) in the turns of others.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.original.proxy import JavaProxy

from bench.ask import Asker, create_group, create_topic
from bench.filling import fill_topic
from bench.machine import ROOT
from bench.results import Result, Run
from bench.runner import say, until_valid
from bench.sdk.programs import BY_NAME, ClientProgram
from bench.servers import Side, SideName
from bench.tally import Invalid
from bench.workloads import BODY_SIZE, QUEUES
from cometmq.wire.requests.consume import UpdateConsumerOffset

SENDS_TOPIC: Final = "bench-sdk-sends"
PUSH_TOPIC: Final = "bench-sdk-push"
IN_FLIGHT: Final = 1_000
PROXY_JVM: Final = ("-server", "-Xms1g", "-Xmx1g")
SLACK_S: Final = 180.0
LOADS: Final = ("sends", "push")


@dataclass(frozen=True)
class Plan:
    broker: SideName
    clients: tuple[str, ...]
    rounds: int
    warm_s: float
    duration_s: float
    push_total: int
    seed: int
    scratch: Path

    def order(self, round_number: int) -> tuple[str, ...]:
        return self.clients if round_number % 2 else self.clients[::-1]


def measure(plan: Plan, result: Result) -> None:
    """Run everything in the plan; runs are added to the result as they end."""
    with ExitStack() as running:
        running.callback(shutil.rmtree, plan.scratch, ignore_errors=True)
        say(f"{plan.broker} broker: start, and fill a topic with {plan.push_total:,} messages")
        side = Side(plan.broker, plan.scratch / "broker")
        running.callback(side.kill)
        side.start()
        total = _fill(plan, side)
        proxy = None
        if any(BY_NAME[name].is_grpc for name in plan.clients):
            say("proxy: start")
            proxy = JavaProxy(plan.scratch / "proxy", [side.namesrv_address], PROXY_JVM)
            running.callback(proxy.kill)
            proxy.start()
            os.kill(proxy.pid, signal.SIGSTOP)
        for round_number in range(1, plan.rounds + 1):
            for load in LOADS:
                for name in plan.order(round_number):
                    turn = partial(_turn, plan, side, proxy, BY_NAME[name], load, round_number, total)
                    values = until_valid(turn, f"round {round_number}/{plan.rounds}  {load:<6} {name:<9}")
                    result.runs.append(Run(name, round_number, f"sdk_{load}", values))
                    shown = "  ".join(f"{key} {value:,g}" for key, value in values.items())
                    say(f"round {round_number}/{plan.rounds}  {load:<6} {name:<9} {shown}")


def _fill(plan: Plan, side: Side) -> int:
    with Asker(side.address) as asker:
        create_topic(asker, SENDS_TOPIC)
    return fill_topic(side, PUSH_TOPIC, plan.push_total, plan.seed)


def _turn(
    plan: Plan, side: Side, proxy: JavaProxy | None, program: ClientProgram, load: str, round_number: int, total: int
) -> dict[str, float]:
    group = f"bench-{program.name}-{load}-{round_number}"
    if load == "push":
        _begin_at_first(side, group)
    os.sync()
    address = side.namesrv_address
    if program.is_grpc:
        assert proxy is not None
        address = proxy.addr
        os.kill(proxy.pid, signal.SIGCONT)
    try:
        return _run(plan, program, load, address, group, total)
    finally:
        if program.is_grpc and proxy is not None:
            os.kill(proxy.pid, signal.SIGSTOP)


def _begin_at_first(side: Side, group: str) -> None:
    with Asker(side.address) as asker:
        create_group(asker, group)
        for queue in range(QUEUES):
            asker.ask(UpdateConsumerOffset(PUSH_TOPIC, group, queue, 0))


def _run(plan: Plan, program: ClientProgram, load: str, address: str, group: str, total: int) -> dict[str, float]:
    home = plan.scratch / program.name
    home.mkdir(parents=True, exist_ok=True)
    topic = PUSH_TOPIC if load == "push" else SENDS_TOPIC
    arguments = [load, address, topic, group, BODY_SIZE, IN_FLIGHT, plan.warm_s, plan.duration_s, total]
    timeout_s = plan.warm_s + plan.duration_s + SLACK_S
    try:
        done = subprocess.run(
            [*program.command(home), *map(str, arguments)], cwd=ROOT, env={**os.environ, "HOME": str(home)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Invalid(f"{program.name} {load} did not end within {timeout_s:g} s") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise Invalid(f"{program.name} {load} ended with exit code {done.returncode} and no result:\n{tail}")
    values: dict[str, float] = json.loads(lines[-1])
    if not values["messages"]:
        raise Invalid(f"{program.name} {load} did nothing in {values['elapsed_s']:.1f} s")
    return {
        **{key: round(value, 3) for key, value in values.items()},
        "rate_per_s": round(values["messages"] / values["elapsed_s"], 1),
        "per_cpu_s": round(values["messages"] / values["cpu_s"], 1),
    }
