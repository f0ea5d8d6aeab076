"""The clients as programs, all with the same arguments:

    sends|push  address  topic  group  body_size  in_flight  warm_s  duration_s  total

`sends` keeps `in_flight` messages on their way for `duration_s`. `push` consumes a topic of `total` messages with a
listener that looks at the body, from half of them on (or `warm_s` later), for `duration_s` or until it has all. What is
done for `warm_s` before does not count. Each prints one line of JSON: messages, elapsed_s, cpu_s (its own process, all
threads) and failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.clients import client_jars
from tests.original.cache import once, run_tool
from tests.original.jars import VERSION
from tests.original.programs import java_program

HERE: Final = Path(__file__).parent
OFFICIAL_VERSION: Final = "5.1.2"


@dataclass(frozen=True)
class ClientProgram:
    """`is_grpc`: it speaks gRPC alone, so its address is that of a proxy."""

    name: str
    label: str
    command: Callable[[Path], list[str]]
    is_grpc: bool = False


def _comet(home: Path) -> list[str]:
    return [sys.executable, "-m", "bench.sdk.comet_client"]


def _java(home: Path) -> list[str]:
    jvm = ("-Xms512m", "-Xmx512m", f"-Duser.home={home}")
    return java_program(HERE / "java" / "SdkBench.java", client_jars(VERSION), jvm=jvm)


def _official(home: Path) -> list[str]:
    def build(folder: Path) -> None:
        run_tool([sys.executable, "-m", "venv", str(folder)], cwd=folder)
        wanted = f"rocketmq-python-client=={OFFICIAL_VERSION}"
        run_tool([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", wanted], cwd=folder)

    name = f"rocketmq-python-client-{OFFICIAL_VERSION}"
    folder = once(f"venv-{name}", f"Installing {name} into an environment of its own", build)
    return [str(folder / "bin" / "python"), str(HERE / "official_client.py")]


PROGRAMS: Final = (
    ClientProgram("java", f"Java client {VERSION}", _java),
    ClientProgram("official", f"rocketmq-python-client {OFFICIAL_VERSION}", _official, is_grpc=True),
    ClientProgram("comet", "CometMQ SDK", _comet),
)
BY_NAME: Final = {program.name: program for program in PROGRAMS}
