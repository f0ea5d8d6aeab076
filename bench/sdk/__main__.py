"""`python -m bench.sdk`: measure, judge, write. Exit code 0: all gates hold; 1: one does not; 2: not measured."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.original.process import ServerFailed

from bench.arguments import positive, some_of
from bench.results import Result, path_of
from bench.runner import say
from bench.sdk import report
from bench.sdk.programs import BY_NAME, OFFICIAL_VERSION, PROGRAMS
from bench.sdk.runner import IN_FLIGHT, Plan, measure
from bench.servers import CannotMeasure, check_tools
from bench.tally import Invalid
from bench.workloads import BODY_SIZE
from cometmq.errors import CometError

NAMES = tuple(program.name for program in PROGRAMS)
LATEST = "sdk/latest"


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.report:
            report.write(Result.load(path_of(LATEST)))
            return 0
        return _run(options)
    except (CannotMeasure, Invalid, ServerFailed, CometError, FileNotFoundError) as fault:
        say(f"not measured: {fault}")
        return 2


def _run(options: argparse.Namespace) -> int:
    clients = options.clients
    if options.broker == "java" or clients != ("comet",):
        check_tools(("java",))
    rounds = options.rounds or (1 if options.quick else 5)
    whole = not options.quick and clients == NAMES and options.broker == "java"
    name = options.name or (LATEST if whole else "scratch/sdk")
    result = Result.begin(
        name,
        options.seed,
        rounds,
        {
            "broker": options.broker,
            "body_size": BODY_SIZE,
            "in_flight": IN_FLIGHT,
            "clients": {name: BY_NAME[name].label for name in clients},
            "official_client": OFFICIAL_VERSION,
        },
    )
    warm_s, duration_s, push_total = (2.0, 1.5, 60_000) if options.quick else (8.0, 6.0, 500_000)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-", dir=options.scratch) as scratch:
        folder = Path(scratch) / "sdk"
        plan = Plan(options.broker, clients, rounds, warm_s, duration_s, push_total, result.seed, folder)
        with result.kept():
            measure(plan, result)
    if whole:
        report.write(result)
    print(report.table(result))
    verdicts = report.judge(result)
    for _, words in verdicts:
        print(words)
    return 0 if all(passed for passed, _ in verdicts) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.sdk", description="The SDK beside other clients.")
    parser.add_argument(
        "--broker", choices=("java", "comet"), default="java", help="the broker that all talk to (java)"
    )
    parser.add_argument(
        "--clients", type=some_of(NAMES), default=NAMES, metavar="A,B", help=f"some of {','.join(NAMES)}"
    )
    parser.add_argument("--rounds", type=positive, help="runs of each client; medians are compared (5)")
    parser.add_argument("--quick", action="store_true", help="one short round: proves that the tool works, not speed")
    parser.add_argument("--seed", type=int, help="of the messages to consume; printed in the result")
    parser.add_argument("--name", help=f"of the result in bench/results ({LATEST})")
    parser.add_argument("--scratch", help="where stores are kept while it runs; wants 5 GB (the temporary folder)")
    parser.add_argument("--report", action="store_true", help="write the section again from the result in the tree")
    return parser


if __name__ == "__main__":
    sys.exit(main())
