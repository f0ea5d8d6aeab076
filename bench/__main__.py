"""`python -m bench`: measure, judge, write the page. Exit code 0: all gates hold; 1: one does not; 2: not measured."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.original.process import ServerFailed

from bench import gates, report, results
from bench.arguments import positive, some_of
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
        return _report([Path(path) for path in options.results])
    try:
        return _run(options)
    except (CannotMeasure, Invalid, ServerFailed, CometError) as fault:
        say(f"not measured: {fault}")
        return 2


def _run(options: argparse.Namespace) -> int:
    sides: tuple[SideName, ...] = options.sides
    check_tools(sides)
    rounds = options.rounds or (1 if options.quick else 5)
    whole = not options.quick and sides == SIDES and options.only == NAMES
    name = options.name or ("latest" if whole else "scratch/partial")
    result = Result.begin(name, options.seed, rounds, _settings())
    if result.machine["load_before"] > BUSY_LOAD_PER_CORE * result.machine["cores"]:
        say(f"the machine is busy (load {result.machine['load_before']}): expect noise")
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-", dir=options.scratch) as scratch, result.kept():
        measure(Plan(sides, options.only, rounds, options.quick, result.seed, Path(scratch)), result)
    if whole:
        report.write([result])
    print(report.table(result))
    verdicts = gates.judge(result)
    for verdict in verdicts:
        print(verdict)
    return 0 if all(verdict.passed for verdict in verdicts) else 1


def _report(paths: list[Path]) -> int:
    try:
        chosen = [Result.load(path) for path in paths or [results.newest()]]
    except FileNotFoundError as missing:
        say(str(missing))
        return 2
    report.write(chosen)
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
    parser.add_argument("--rounds", type=positive, help="alternating runs of each side; medians are compared (5)")
    parser.add_argument("--quick", action="store_true", help="one short round: proves that the tool works, not speed")
    parser.add_argument("--only", type=some_of(NAMES), default=NAMES, metavar="A,B", help=f"some of {','.join(NAMES)}")
    parser.add_argument("--sides", type=some_of(SIDES), default=SIDES, metavar="A,B", help=f"some of {','.join(SIDES)}")
    parser.add_argument("--seed", type=int, help="of the message bodies; printed in the result")
    parser.add_argument("--name", help="of the result in bench/results (latest)")
    parser.add_argument("--scratch", help="where stores are kept while it runs; wants 20 GB (the temporary folder)")
    commands = parser.add_subparsers(dest="command")
    page = commands.add_parser("report", help="write docs/performance.md again from results")
    page.add_argument("results", nargs="*", help="files in bench/results, one for each part of the page (the newest)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
