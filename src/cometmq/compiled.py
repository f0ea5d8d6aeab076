"""Whether the compiled twins are here: `twins` is the extension, or None.

COMETMQ_PURE=1 in the environment chooses the pure-Python twins where both are.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final, TypeVar

_Twin = TypeVar("_Twin")


def _load() -> Any:
    if os.environ.get("COMETMQ_PURE", "") not in ("", "0"):
        return None
    try:
        return importlib.import_module("cometmq._compiled")
    except ImportError:  # no compiler where CometMQ was installed
        return None


twins: Final = _load()


def twin(name: str, pure: _Twin) -> _Twin:
    """What the extension has in place of `pure`; that itself where there is none, or one of older sources."""
    found: _Twin = getattr(twins, name, pure)
    return found
