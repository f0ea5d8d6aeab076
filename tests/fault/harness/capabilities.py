"""What a fault test needs from the machine; what is missing is skipped loudly, and counted.

A run in which something was skipped fails at its end, unless FAULT_SKIPS says how many skips are known and accepted: a
fault suite that tests nothing must not pass as green.
"""

from __future__ import annotations

import os
import shutil
from typing import Final

import pytest

skipped: Final[list[str]] = []


def needs(what: str) -> None:
    """Skip the test if the machine cannot do this: `mount`, or the name of a program."""
    missing = os.geteuid() != 0 or shutil.which("mount") is None if what == "mount" else shutil.which(what) is None
    if missing:
        skipped.append(what)
        pytest.skip(f"FAULT TEST SKIPPED: this machine cannot {what}" if what == "mount" else f"SKIPPED: no {what}")


def accepted() -> int:
    """So many skips are known; root can do everything, so there it is none unless said otherwise."""
    return int(os.environ.get("FAULT_SKIPS", "0"))
