"""The test kit: a cluster in your test's own process, a network that can be made to fail, and a pytest plug-in.

    from cometmq.testing import ChaosProxy, LocalCluster

Each is imported when it is first asked for: pytest loads the plug-in, and with it this file, in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cometmq.testing.chaos_proxy import ChaosProxy as ChaosProxy
    from cometmq.testing.local_cluster import LocalCluster as LocalCluster

__all__ = ["ChaosProxy", "LocalCluster"]


def __getattr__(name: str) -> Any:
    if name == "ChaosProxy":
        from cometmq.testing.chaos_proxy import ChaosProxy

        return ChaosProxy
    if name == "LocalCluster":
        from cometmq.testing.local_cluster import LocalCluster

        return LocalCluster
    raise AttributeError(f"module 'cometmq.testing' has no attribute {name!r}")
