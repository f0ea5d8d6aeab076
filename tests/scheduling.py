"""Which tests share a worker when they run side by side.

Those beside Apache RocketMQ's servers and clients stay together, one after the other: they wait more than they work,
and two of these brokers at once on two cores answer too late. The others go by file, each with its own fixtures.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

BESIDE_THE_ORIGINAL = (
    "tests/differential/",
    "tests/interop/",
    "tests/sdk/",
    "tests/fault/test_mixed_stores.py",
    "tests/fault/test_damaged_stores.py",
)


class TwoLanes(LoadScopeScheduling):  # type: ignore[misc]
    """One scope for all tests beside the original, one for each other file."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "beside the original" if path.startswith(BESIDE_THE_ORIGINAL) else path
