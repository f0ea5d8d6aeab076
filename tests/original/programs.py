"""Small Java programs of the tests, each one file, compiled once: to compile at each start takes longer than to run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .cache import fingerprint, once, run_tool
from .jars import class_path
from .tools import require

SMALL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


def java_program(source: Path, *jar_folders: Path, jvm: Sequence[str] = SMALL_JVM) -> list[str]:
    """The command line of a program that uses the jars of some folders, less its arguments."""
    require("java")
    name, jars = source.stem, class_path(*jar_folders)

    def build(folder: Path) -> None:
        run_tool(["javac", "-cp", jars, "-d", str(folder), str(source)], cwd=folder)

    classes = once(f"java-{name}-{fingerprint([source], jars)}", f"Compiling {source.name}", build)
    return ["java", *jvm, "-cp", f"{classes}{os.pathsep}{jars}", name]
