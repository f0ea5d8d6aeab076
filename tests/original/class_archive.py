"""The classes of the original as a JVM has them in memory, written once: with them a broker starts much sooner.

Invariant: where there is no archive (a JDK without one of its own cannot write more), JVMs start as ever.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from .cache import fingerprint, once


def archive_flags(jars: Path, train: Callable[[str], None]) -> tuple[str, ...]:
    """The flags of JVMs with these jars as class path; `train` lets one run, with the flag to write what it loads."""

    def build(folder: Path) -> None:
        train(f"-XX:ArchiveClassesAtExit={_archive_in(folder)}")

    # An archive is good for the jars that it was made of, untouched, and for one build of Java.
    of_jars = (f"{jar.name} {jar.stat().st_mtime_ns}" for jar in sorted(jars.glob("*.jar")))
    key = fingerprint([], _java_build(), *of_jars)
    archive = _archive_in(once(f"classes-{jars.name}-{key}", f"Archiving the classes of {jars.name}", build))
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def _archive_in(folder: Path) -> Path:
    return folder / "classes.jsa"


def _java_build() -> str:
    """What the JDK on the PATH says of itself."""
    java = Path(shutil.which("java") or "java").resolve()
    release = java.parents[1] / "release"
    return release.read_text() if release.exists() else str(java)
