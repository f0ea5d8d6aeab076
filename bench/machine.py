"""What the numbers depend on: the machine and the versions, without anything that names a host or a path."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def facts() -> dict[str, Any]:
    found: dict[str, Any] = {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "uvloop": version("uvloop"),
        "orjson": version("orjson"),
    }
    if shutil.which("java"):
        found["java"] = _output("java", "-version").splitlines()[0].strip()
    return found


def commit() -> str:
    """The commit that was measured, with a + where its sources were changed."""
    head = _output("git", "rev-parse", "--short=12", "HEAD").strip() or "unknown"
    return f"{head}+" if _output("git", "status", "--porcelain", "--", "src").strip() else head


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return ""
    return done.stdout or done.stderr if done.returncode == 0 else ""
