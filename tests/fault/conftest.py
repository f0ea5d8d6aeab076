"""Fault tests: longer limits for full numbers, a quick folder for thousands of stores, and skips that are counted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fault.harness import capabilities, rows

SHARED_MEMORY = Path("/dev/shm")
HERE = Path(__file__).parent


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: power cuts are made from a recording, so no disk is needed."""
    if not SHARED_MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="cometmq-fault-") as folder:
        yield Path(folder)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if rows.share() is not None:
        for item in items:
            if item.path.parent == HERE:
                item.add_marker(pytest.mark.timeout(0), append=False)  # hours


def pytest_sessionfinish(session: pytest.Session) -> None:
    if len(capabilities.skipped) > capabilities.accepted():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if capabilities.skipped:
        terminalreporter.section("fault tests that did not run", red=True)
        terminalreporter.line(
            f"{len(capabilities.skipped)} were skipped, for want of {', '.join(sorted(set(capabilities.skipped)))}; "
            f"{capabilities.accepted()} are accepted (FAULT_SKIPS): run them where they can run"
        )
