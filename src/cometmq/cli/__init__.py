"""The command `cometmq`: one file per noun, imported only when it is asked for.

A command module has `run(arguments) -> exit code`. What goes wrong on purpose (the tree in `errors`) is told in one
sentence on stderr; only a fault of ours shows a traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final, NamedTuple

from cometmq import __version__
from cometmq.errors import CometError

EXIT_INTERRUPTED: Final = 130


class Command(NamedTuple):
    """Where a command lives. By name: `standalone` stands above this floor and may not be imported from it."""

    module: str
    summary: str


COMMANDS: Final = {
    "standalone": Command("cometmq.standalone.command", "NameServer and broker in one process; the way to try CometMQ"),
    "namesrv": Command("cometmq.cli.namesrv", "a NameServer"),
    "broker": Command("cometmq.cli.broker", "a broker"),
    "tour": Command("cometmq.cli.tour", "a guided run, in seconds, on a running server or one that comes along"),
    "store": Command("cometmq.cli.store", "check, dump or repair the folder of a stopped broker"),
    "pipeline": Command(
        "cometmq.spark.pipelines.command", "pipelines of Spark over topics: init, validate, run, status"
    ),
    "version": Command("cometmq.cli.version", "print the version"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    name, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if name in ("-h", "--help", "help"):
        print(usage())
        return 0
    if name in ("-V", "--version"):
        name = "version"
    command = COMMANDS.get(name)
    if command is None:
        print(f"cometmq: there is no command {name!r}.\n{usage()}", file=sys.stderr)
        return 2
    return guarded("cometmq", command.module, rest)


def guarded(program: str, module: str, arguments: list[str], function: str = "run") -> int:
    """Call a command's function and tell in a sentence what stopped it."""
    try:
        code: int = getattr(import_module(module), function)(arguments)
        return code
    except CometError as error:
        print(f"{program}: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{program}: the system refused: {error}", file=sys.stderr)
    except KeyboardInterrupt:  # before anything had begun that would stop cleanly
        return EXIT_INTERRUPTED
    return 1


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join([f"CometMQ {__version__}. Usage: cometmq COMMAND [--help]", "", *lines])
