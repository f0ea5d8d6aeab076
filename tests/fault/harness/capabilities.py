"""What a fault test needs from the machine; what is missing is skipped loudly, and counted.

A run in which something was skipped fails at its end, unless FAULT_SKIPS says how many skips are known and accepted: a
fault suite that tests nothing must not pass as green.
"""

from __future__ import annotations

import os
import shutil
from typing import Final, NoReturn

import pytest

skipped: Final[list[str]] = []


def needs(what: str) -> None:
    """Skip the test if the machine lacks this: the name of a program; `mount` needs root too."""
    if shutil.which(what) is None or (what == "mount" and os.geteuid() != 0):
        miss(what)


def miss(what: str) -> NoReturn:
    """Skip the test, and have it counted."""
    skipped.append(what)
    pytest.skip(f"FAULT TEST SKIPPED: this machine cannot {what}")


def accepted() -> int:
    """So many skips are known; root can do everything, so there it is none unless said otherwise."""
    return int(os.environ.get("FAULT_SKIPS", "0"))
