"""`cometmq store check|dump|repair DIR`: look at a store folder, CometMQ's or Apache RocketMQ's, and mend it.

Exit codes: 0 all is sound (or was mended), 1 something is not, 2 the folder cannot be looked at.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import orjson

from cometmq.cli import options
from cometmq.cli.progress import ProgressBar
from cometmq.errors import CometError
from cometmq.store.fs import OsFs
from cometmq.store.inspection.check import Check
from cometmq.store.inspection.findings import Level, Report
from cometmq.store.inspection.folder import Folder, refuse_if_no_store, refuse_if_open, store_config
from cometmq.store.inspection.plan import Plan, plan_of
from cometmq.store.inspection.records import Gap, Wanted, records, to_json, to_line
from cometmq.store.lock import StoreLock

SOUND: Final = 0
NOT_SOUND: Final = 1
UNUSABLE: Final = 2
ROUNDS_MAX: Final = 3  # a repaired log lets the next round see what its queues lack


def run(arguments: list[str]) -> int:
    given = _parsed(arguments)
    try:
        return {"check": _check, "dump": _dump, "repair": _repair}[given.what](given)
    except CometError as fault:
        print(f"cometmq store {given.what}: {fault}", file=sys.stderr)
        return UNUSABLE
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        return SOUND
    except OSError as error:
        print(f"cometmq store {given.what}: {error.filename or given.folder}: {error.strerror}", file=sys.stderr)
        return UNUSABLE


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="cometmq store",
        description="Look at the folder of a broker, which must be stopped but for dump.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="what", required=True, metavar="check|dump|repair")
    check = commands.add_parser("check", help="prove a folder sound, or say what is not")
    dump = commands.add_parser("dump", help="show the messages of the log")
    repair = commands.add_parser("repair", help="say what can be repaired; with --apply, repair it")
    for command in (check, dump, repair):
        command.add_argument("folder", metavar="DIR", help="storePathRootDir of the broker")
        command.add_argument("-c", "--config", metavar="FILE", help="the broker's settings, if they are not the usual")
    for command in (check, dump):
        command.add_argument("--json", action="store_true", help="for programs; `dump`: one object per line")
    dump.add_argument("--topic")
    dump.add_argument("--queue", type=_number, metavar="ID")
    dump.add_argument("--offset", type=_number, metavar="N", help="queue offsets from here on")
    dump.add_argument("--offset-end", type=_number, metavar="N", help="and before this one")
    dump.add_argument("--physical", type=_number, metavar="N", help="places in the log from here on")
    dump.add_argument("--physical-end", type=_number, metavar="N", help="and before this one")
    dump.add_argument("--key", help="messages that have this key or unique key")
    dump.add_argument("--limit", type=_number, metavar="N", help="at most so many")
    repair.add_argument("--apply", action="store_true", help="do what costs nothing beyond what is lost already")
    repair.add_argument("--accept-loss", action="store_true", help="with --apply: do also what costs something")
    given = parser.parse_args(arguments)
    if given.what == "repair" and given.accept_loss and not given.apply:
        repair.error("--accept-loss goes with --apply: by itself it changes nothing")
    given.folder = given.folder.rstrip("/") or "/"
    return given


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is no number from 0 on")
    return int(text)


@contextmanager
def _opened(given: argparse.Namespace) -> Iterator[Folder]:
    folder = Folder(given.folder, options.values_of(given.config))
    try:
        yield folder
    finally:
        folder.close()


def _check(given: argparse.Namespace) -> int:
    refuse_if_open(given.folder)
    bar = ProgressBar("checking the log")
    with _opened(given) as folder:
        try:
            report = Check(folder, bar).run()
        finally:
            bar.close()
    if given.json:
        print(orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        _print_report(report)
        print("sound" if report.sound else f"not sound: `cometmq store repair {given.folder}` shows what can be done")
    return SOUND if report.sound else NOT_SOUND


def _print_report(report: Report) -> None:
    width = max(map(len, report.summary), default=0)
    for part, text in report.summary.items():
        print(f"{'ok ' if report.is_sound(part) else 'BAD'}  {part:<{width}}  {text}")
        for found in report.findings:
            if found.part == part:
                print(f"     {' ' * width}  {'note: ' if found.level is Level.NOTE else ''}{found.text}")


def _dump(given: argparse.Namespace) -> int:
    wanted = Wanted(
        given.topic, given.queue, given.offset, given.offset_end, given.physical, given.physical_end, given.key
    )
    count = gaps = 0
    with _opened(given) as folder:
        for found in records(folder, wanted):
            if isinstance(found, Gap):
                gaps += 1
                print(f"no messages in bytes {found.start} to {found.end} of the log: damaged", file=sys.stderr)
                continue
            if given.limit is not None and count >= given.limit:
                break
            count += 1
            print(orjson.dumps(to_json(found)).decode() if given.json else to_line(found))
    return NOT_SOUND if gaps else SOUND


def _repair(given: argparse.Namespace) -> int:
    refuse_if_open(given.folder)
    if not given.apply:
        with _opened(given) as folder:
            plan = _plan(folder)
        _print_plan(plan)
        if plan.steps:
            print("nothing was changed; --apply does it" + _loss_hint(plan))
        return SOUND if plan.report.sound and not plan.steps else NOT_SOUND
    refuse_if_no_store(store_config(given.folder, options.values_of(given.config)))  # before a lock file is made
    lock = StoreLock(OsFs(), given.folder)
    lock.acquire()
    try:
        return _apply(given)
    finally:
        lock.release()


def _apply(given: argparse.Namespace) -> int:
    for _ in range(ROUNDS_MAX + 1):
        with _opened(given) as folder:
            plan = _plan(folder)
            steps = [step for step in plan.steps if step.costs is None or given.accept_loss]
            if not steps:
                break
            for step in steps:
                step.apply()
                print(f"done: {step.what}")
    _print_report(plan.report)
    for step in plan.steps:
        print(f"left: {step.what}" + (f"\n      costs: {step.costs}" if step.costs is not None else ""))
    print("sound" if plan.report.sound else "not sound" + _loss_hint(plan))
    return SOUND if plan.report.sound else NOT_SOUND


def _plan(folder: Folder) -> Plan:
    bar = ProgressBar("checking the log")
    try:
        return plan_of(folder, bar)
    finally:
        bar.close()


def _print_plan(plan: Plan) -> None:
    _print_report(plan.report)
    for number, step in enumerate(plan.steps, 1):
        print(f"{number}. {step.what}")
        if step.costs is not None:
            print(f"   costs: {step.costs}")
    if not plan.steps:
        print("nothing to repair" if plan.report.sound else f"nothing here can be repaired: {_what_else(plan.report)}")


def _what_else(report: Report) -> str:
    move_away = any("move it away" in found.text for found in report.findings if found.level is Level.FAULT)
    return "move away what does not belong to the store" if move_away else "restore a backup"


def _loss_hint(plan: Plan) -> str:
    return "; what costs something also wants --accept-loss" if any(step.costs for step in plan.steps) else ""
