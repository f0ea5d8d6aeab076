"""Which tests share a worker when they run side by side: those of one file, and those that read one client's one run.

The suites beside Apache RocketMQ mostly wait, so more workers than cores shorten them.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

# Each client program runs all its scenarios once, in the worker that asks for it (`tests/interop/conftest.py`).
OF_ONE_RUN = ("test_asking", "test_clients", "test_filters", "test_retries")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """One scope for each file."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "one run of each client" if path.startswith(tuple(f"tests/interop/{n}" for n in OF_ONE_RUN)) else path
