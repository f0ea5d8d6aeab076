"""`python -m bench`: measure, judge, write the page. Exit code 0: all gates hold; 1: one does not; 2: not measured."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from tests.original.process import ServerFailed

from bench import gates, machine, report, results
from bench.results import Result
from bench.runner import Plan, measure, say
from bench.servers import BROKER_JVM, CONF, NAMESRV_JVM, SIDES, CannotMeasure, SideName, check_tools
from bench.tally import Invalid
from bench.workloads import BODY_SIZE, NAMES, QUEUES, WORKLOADS
from cometmq.errors import CometError

BUSY_LOAD_PER_CORE = 0.3


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.command == "report":
        return _report(Path(options.result) if options.result else None)
    try:
        return _run(options)
    except (CannotMeasure, Invalid, ServerFailed, CometError) as fault:
        say(f"not measured: {fault}")
        return 2


def _run(options: argparse.Namespace) -> int:
    sides: tuple[SideName, ...] = tuple(side for side in SIDES if side in options.sides)
    check_tools(sides)
    rounds = options.rounds or (1 if options.quick else 5)
    seed = options.seed if options.seed is not None else random.randrange(1 << 31)
    whole = not options.quick and sides == SIDES and set(options.only) == set(NAMES)
    result = Result(
        name=options.name or ("latest" if whole else "scratch/partial"),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=machine.commit(),
        seed=seed,
        rounds=rounds,
        machine=machine.facts(),
        settings=_settings(),
    )
    if result.machine["load_before"] > BUSY_LOAD_PER_CORE * result.machine["cores"]:
        say(f"the machine is busy (load {result.machine['load_before']}): expect noise")
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-", dir=options.scratch) as scratch:
        measure(Plan(sides, tuple(options.only), rounds, options.quick, seed, Path(scratch)), result)
    result.save()
    if whole:
        report.write(result)
    print(report.table(result))
    verdicts = gates.judge(result)
    for verdict in verdicts:
        print(verdict)
    return 0 if all(verdict.passed for verdict in verdicts) else 1


def _report(path: Path | None) -> int:
    try:
        result = Result.load(path or results.newest())
    except FileNotFoundError as missing:
        say(str(missing))
        return 2
    report.write(result)
    return 0


def _settings() -> dict[str, object]:
    return {
        "body_size": BODY_SIZE,
        "queues": QUEUES,
        "broker_conf": CONF,
        "broker_jvm": " ".join(BROKER_JVM),
        "namesrv_jvm": " ".join(NAMESRV_JVM),
        "workloads": {w.name: f"{w.connections} connections × {w.window} in flight" for w in WORKLOADS},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="CometMQ beside Apache RocketMQ 5.5.0.")
    parser.add_argument("--rounds", type=_positive, help="alternating runs of each side; medians are compared (5)")
    parser.add_argument("--quick", action="store_true", help="one short round: proves that the tool works, not speed")
    parser.add_argument("--only", type=_names, default=NAMES, metavar="A,B", help=f"some of {','.join(NAMES)}")
    parser.add_argument("--sides", type=_sides, default=SIDES, metavar="A,B", help="java,comet or one of them")
    parser.add_argument("--seed", type=int, help="of the message bodies; printed in the result")
    parser.add_argument("--name", help="of the result in bench/results (latest)")
    parser.add_argument("--scratch", help="where stores are kept while it runs; wants 20 GB (the temporary folder)")
    commands = parser.add_subparsers(dest="command")
    page = commands.add_parser("report", help="write docs/performance.md again from a result")
    page.add_argument("result", nargs="?", help="a file in bench/results (the newest)")
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return _chosen(text, NAMES)


def _sides(text: str) -> tuple[str, ...]:
    return _chosen(text, get_args(SideName))


def _chosen(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(","))
    for part in chosen:
        if part not in known:
            raise argparse.ArgumentTypeError(f"{part!r} is not one of {', '.join(known)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
