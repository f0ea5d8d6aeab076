"""`python -m bench.spark`: measure, judge, write. Exit code 0: all gates hold; 1: one does not; 2: not measured.

Every run is kept as soon as it has ended. Of a benchmark that was broken off, `--report` makes the page's section.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.original.process import ServerFailed

from bench.arguments import positive, some_of
from bench.results import Result, path_of
from bench.runner import say
from bench.servers import CannotMeasure
from bench.spark import report
from bench.spark.gates import judge
from bench.spark.kafka import KAFKA_JVM, KAFKA_VERSION, SOURCE_VERSION, check_tools
from bench.spark.loads import LOADS, SIDES
from bench.spark.program import CORES, HEAP
from bench.spark.runner import Plan, measure
from bench.tally import Invalid
from bench.workloads import BODY_SIZE, QUEUES
from cometmq.errors import CometError

LATEST: Final = "spark/latest"
ROWS: Final = 2_000_000
QUICK_ROWS: Final = 20_000
SINK_SHARE: Final = 10  # a sink writes so many times less than a source reads


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.report:
            kept = Result.load(path_of(LATEST))
            report.write(kept)
            return _judged(kept)
        return _run(options)
    except (CannotMeasure, Invalid, ServerFailed, CometError, FileNotFoundError) as fault:
        say(f"not measured: {fault}")
        return 2


def _run(options: argparse.Namespace) -> int:
    sides, loads = options.sides, options.only
    check_tools(sides)
    rounds = options.rounds or (1 if options.quick else 5)
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    whole = not options.quick and sides == SIDES and loads == LOADS and rows >= ROWS
    settings = {
        "rows": rows,
        "sink_rows": rows // SINK_SHARE,
        "body_size": BODY_SIZE,
        "queues": QUEUES,
        "cores": CORES,
        "spark": version("pyspark"),
        "spark_heap": HEAP,
        "kafka": KAFKA_VERSION,
        "kafka_jvm": " ".join(KAFKA_JVM),
        "kafka_source": SOURCE_VERSION,
    }
    result = Result.begin(options.name or (LATEST if whole else "scratch/spark"), options.seed, rounds, settings)
    try:
        with tempfile.TemporaryDirectory(prefix="cometmq-bench-", dir=options.scratch) as scratch:
            folder = Path(scratch) / "spark"
            measure(Plan(sides, loads, rounds, rows, rows // SINK_SHARE, result.seed, folder), result)
    except BaseException:
        if result.runs:
            say(f"broken off; {len(result.runs)} runs are kept in {path_of(result.name)}")
            _judged(result)
        raise
    if whole:
        report.write(result)
    return _judged(result)


def _judged(result: Result) -> int:
    """Print figures and gates; returns the exit code."""
    print(report.table(result))
    verdicts = judge(result)
    for verdict in verdicts:
        print(verdict)
    return 0 if all(verdict.passed for verdict in verdicts) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.spark", description="The Spark source beside Spark's own for Kafka.")
    for name, known in (("sides", SIDES), ("only", LOADS)):
        given = f"some of {','.join(known)}"
        parser.add_argument(f"--{name}", type=some_of(known), default=known, metavar="A,B", help=given)
    parser.add_argument(
        "--rows", type=positive, help=f"messages to read, at least ({ROWS:,}); a tenth of them is written"
    )
    parser.add_argument("--rounds", type=positive, help="runs of each side; medians are compared (5)")
    parser.add_argument("--quick", action="store_true", help="few rows, one round: proves that the tool works")
    parser.add_argument("--seed", type=int, help="of the message bodies; printed in the result")
    parser.add_argument("--name", help=f"of the result in bench/results ({LATEST})")
    parser.add_argument("--scratch", help="where stores are kept while it runs; wants 12 GB (the temporary folder)")
    parser.add_argument(
        "--report",
        action="store_true",
        help="write the section again from what is kept, also of a run that was broken off",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
