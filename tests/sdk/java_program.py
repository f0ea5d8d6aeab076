"""The programs in java/, compiled once: to compile them at each start takes longer than to run them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.interop.clients import client_jars
from tests.original.cache import fingerprint, once, run_tool
from tests.original.jars import VERSION, class_path

HERE = Path(__file__).parent / "java"


def java_program(name: str) -> list[str]:
    """The command line of a program, less its arguments."""
    source, jars = HERE / f"{name}.java", class_path(client_jars(VERSION))

    def build(folder: Path) -> None:
        run_tool(["javac", "-cp", jars, "-d", str(folder), str(source)], cwd=folder)

    classes = once(f"sdk-java-{fingerprint([source], VERSION)}", f"Compiling {source.name}", build)
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}{os.pathsep}{jars}", name]
