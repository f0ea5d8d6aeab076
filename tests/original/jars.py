"""The jars of Apache RocketMQ and what they depend on, fetched once by Maven from coordinates in pom.xml.

5.5.0 is the original that everything is measured by. OLDER_VERSION is there for clients to be tried on: the last of the
4.9 line whose broker is in Maven Central, which has of 4.9.8 the client and the tools alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from .cache import once, run_tool
from .tools import require

POM = Path(__file__).with_name("pom.xml")
VERSION = "5.5.0"
OLDER_VERSION = "4.9.7"

# The original reaches into the JDK; newer Javas must be told to let it.
MODULE_FLAGS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)


def copy_dependencies(pom: Path, into: Path, *arguments: str) -> None:
    """Let Maven copy every run-time dependency of a project into one folder."""
    run_tool(
        ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime",
         f"-DoutputDirectory={into}", *arguments],
        cwd=into,
    )  # fmt: skip


def original_jars(version: str = VERSION) -> Path:
    """The folder with the original's jars; downloads them (about 95 MB) where they are absent."""
    require("java")

    def download(folder: Path) -> None:
        require("mvn")
        copy_dependencies(POM, folder, f"-Drocketmq.version={version}")

    return once(f"rocketmq-{version}", f"Downloading Apache RocketMQ {version} and its dependencies", download)


def class_path(*folders: Path) -> str:
    """A Java class path of all jars in the folders, in a stable order."""
    return os.pathsep.join(str(jar) for folder in folders for jar in sorted(folder.glob("*.jar")))
