"""Log lines go to stderr; only warnings unless asked for more.

The level is `COMETMQ_LOG` (DEBUG, INFO, WARNING, ERROR) where it is set, else `-v` gives INFO and `-vv` DEBUG.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

from cometmq.errors import ConfigError

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


def configure(verbosity: int = 0) -> None:
    """Set up logging for a process; call it once, at the edge. Without effect where it is set up already."""
    level = os.environ.get("COMETMQ_LOG", "").strip().upper()
    if level and level not in LEVELS:
        raise ConfigError(f"COMETMQ_LOG={level}: {', '.join(LEVELS)} are possible")
    if not level:
        level = ("WARNING", "INFO", "DEBUG")[min(verbosity, 2)]
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
