"""The toolchains that tests of compatibility need, and what happens where one is missing.

A developer without Java or Go still gets a useful run: the test is skipped, loudly. In CI (`CI=true`) the same
gap is a failure, because there a skipped test would claim a compatibility that nobody looked at.
"""

from __future__ import annotations

import os
import shutil

import pytest

INSTALL_HINT = {
    "java": "install a JDK, 17 or newer",
    "mvn": "install Apache Maven, 3.8 or newer",
    "go": "install Go, 1.21 or newer",
}


def require(*tools: str) -> None:
    """Skip the running test unless all tools are on the PATH; with CI=true, fail it."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not missing:
        return
    hints = "; ".join(f"{tool}: {INSTALL_HINT.get(tool, 'install it')}" for tool in missing)
    message = f"NOT TESTED: {', '.join(missing)} not found on the PATH ({hints})"
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
