"""`cometmq pipeline init|validate|run|status|list`: pipelines of Spark over topics.

Exit codes: 0 it went well, 1 the pipeline or its run is at fault, 2 the command line is.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from cometmq.errors import InvalidArgument

WHERE_VARIABLE = "COMETMQ_SPARK"


def run(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    return {"init": _init, "validate": _validate, "run": _run, "status": _status, "list": _list}[given.what](given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cometmq pipeline", description="Pipelines of Spark over topics.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="what", required=True, metavar="init|validate|run|status|list")
    init = commands.add_parser("init", help="make a folder with a pipeline in it, to change")
    init.add_argument("--like", metavar="READY", help="begin with this ready-made pipeline (cometmq pipeline list)")
    validate = commands.add_parser("validate", help="say whether it could run, without running it")
    start = commands.add_parser("run", help="process everything that is new, and say what was done")
    status = commands.add_parser("status", help="say what the last run did, or the present one does")
    for command in (init, validate, start, status):
        command.add_argument("name", metavar="NAME", help="the pipeline's folder, or the name of a ready-made one")
        command.add_argument("--state", metavar="DIR", help="where it keeps checkpoints and tables")
        command.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help="a setting of the pipeline"
        )
    for command in (validate, start):
        command.add_argument(
            "--spark",
            metavar="URL",
            default=os.environ.get(WHERE_VARIABLE, "local[*]"),
            help=f"master URL, or sc://… of a Spark Connect server; {WHERE_VARIABLE} or local[*] without it",
        )
    start.add_argument("--full-refresh", metavar="TABLE", action="append", default=[], help="compute it anew")
    start.add_argument("--full-refresh-all", action="store_true", help="compute everything anew")
    start.add_argument("--charts", metavar="DIR", help="where charts are drawn; charts/ in the state without it")
    status.add_argument("--json", action="store_true", help="for programs")
    commands.add_parser("list", help="the ready-made pipelines and their settings")
    return parser


def _settings(given: argparse.Namespace) -> dict[str, str]:
    """`topic=orders` is the pipeline's own, `spark.x=y` is Spark's."""
    found = {}
    for text in given.settings:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise InvalidArgument(f"--set {text}: KEY=VALUE is expected, as topic=orders")
        found[key if key.startswith(("spark.", "cometmq.")) else f"cometmq.{key}"] = value
    return found


def _init(given: argparse.Namespace) -> int:
    from cometmq.spark.pipelines.project import init_project

    for path in init_project(given.name, given.like, _settings(given)):
        print(path)
    print(f"Look at the settings in the first file, then: cometmq pipeline run {given.name}")
    return 0


def _check_packages() -> None:
    missing = [name for name in ("pyspark", "pyarrow", "yaml", "grpc") if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidArgument(f"pipelines need more packages ({', '.join(missing)}): pip install 'cometmq[spark]'")


def _started(given: argparse.Namespace, *, dry: bool) -> Any:
    _check_packages()
    from cometmq.spark.pipelines.display import Display
    from cometmq.spark.pipelines.project import find_project
    from cometmq.spark.pipelines.running import Run

    project = find_project(given.name, _settings(given), given.state)
    charts = None if dry or given.charts is None else Path(given.charts)
    return Run(project, given.spark, Display(sys.stderr), dry=dry, charts=charts)


def _validate(given: argparse.Namespace) -> int:
    _started(given, dry=True).run()
    print(f"{given.name} is sound")
    return 0


def _run(given: argparse.Namespace) -> int:
    from cometmq.spark.pipelines.display import flow_table

    one = _started(given, dry=False)
    try:
        one.run(given.full_refresh, full_refresh_all=given.full_refresh_all)
    finally:
        if one.flows.flows:
            print(flow_table(one.flows.flows.values()))
    for picture in one.pictures:
        print(f"drawn: {picture}")
    print(f"{given.name}: {one.flows.run_state.lower()} in {time.time() - one.began_s:.1f} s")
    return 0


def _status(given: argparse.Namespace) -> int:
    from cometmq.spark.pipelines.display import flow_table
    from cometmq.spark.pipelines.flows import ENDED, Flow
    from cometmq.spark.pipelines.project import READY, find_project, ready_settings
    from cometmq.spark.pipelines.running import LAST_RUN

    settings = _settings(given)
    if given.name in READY and not Path(given.name).exists():
        settings = {key: value or "-" for key, value in ready_settings(given.name).items()} | settings
    path = find_project(given.name, settings, given.state).storage / LAST_RUN
    if not path.exists():
        raise InvalidArgument(f"{given.name} has not run yet: there is no {path}")
    text = path.read_bytes()
    if given.json:
        print(text.decode())
        return 0
    told = orjson.loads(text)
    flows = [Flow(**flow) for flow in told["flows"]]
    print(flow_table(flows))
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(told["began"]))
    state = told["state"].lower()
    if told["state"] not in ENDED:
        state = "running" if _is_alive(told["pid"]) else "broken off"
    print(f"{told['pipeline']}: {state}; began {began}, {told['told'] - told['began']:.1f} s")
    return 0


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def _list(_: argparse.Namespace) -> int:
    from cometmq.spark.pipelines.project import READY, ready_file, ready_settings

    for name, about in READY.items():
        if ready_file(name).exists():
            print(f"{name}: {about}")
            for key, value in ready_settings(name).items():
                print(f"    --set {key.removeprefix('cometmq.')}={value or '…'}")
    return 0
