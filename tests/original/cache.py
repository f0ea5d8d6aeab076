"""Things that are made once and kept outside the tree: downloaded jars, compiled test clients.

Invariants: an entry is complete or absent (it is built beside its place and renamed into it), and it is built by
one process at a time (a lock file per entry), so that test workers which start together download once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

BUILD_TIMEOUT_S = 900


def cache_dir() -> Path:
    """Where entries are kept: $COMETMQ_CACHE, or ~/.cache/cometmq."""
    configured = os.environ.get("COMETMQ_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "cometmq"


def once(entry: str, what: str, build: Callable[[Path], None]) -> Path:
    """The folder of the cache entry; where it is absent, `build` fills a fresh folder that then becomes it."""
    home = cache_dir()
    place = home / entry
    if place.exists():
        return place
    home.mkdir(parents=True, exist_ok=True)
    with open(home / f"{entry}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.exists():  # someone else built it while we waited
            return place
        print(f"\n*** {what}; this is done once and kept in {place} ***", file=sys.__stderr__, flush=True)
        workshop = home / f"{entry}.partial"
        shutil.rmtree(workshop, ignore_errors=True)  # left by a build that was interrupted
        workshop.mkdir()
        build(workshop)
        workshop.rename(place)
    return place


def run_tool(command: list[str], cwd: Path) -> None:
    """Run a build tool; where it fails, raise with what it said."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=BUILD_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-40:])
        raise RuntimeError(f"`{' '.join(command)}` failed with exit code {done.returncode}. Its last lines:\n{tail}")


def fingerprint(files: Iterable[Path], *more: str) -> str:
    """A short key that changes whenever one of the files (by name and content) or strings does."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    for text in more:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]
