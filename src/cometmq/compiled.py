"""Whether the compiled twins are here: `twins` is the extension, or None.

COMETMQ_PURE=1 in the environment chooses the pure-Python twins where both are.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final


def _load() -> Any:
    if os.environ.get("COMETMQ_PURE", "") not in ("", "0"):
        return None
    try:
        return importlib.import_module("cometmq._compiled")
    except ImportError:  # no compiler where CometMQ was installed
        return None


twins: Final = _load()
