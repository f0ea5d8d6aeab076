"""A client belongs to the process that made it: after `fork` both would read one socket and break each other.

The child only counts that it was forked; nothing is closed or touched there, since the sockets are the parent's.
"""

from __future__ import annotations

import os
from typing import Final

from cometmq.errors import ClientForked


class _Generation:
    """How many forks lie between this process and the first that imported us."""

    def __init__(self) -> None:
        self.number = 0

    def forked(self) -> None:
        self.number += 1


GENERATION: Final = _Generation()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=GENERATION.forked)


def check_process(generation: int, what: str) -> None:
    """Raise if `what` was made before this process was forked."""
    if generation != GENERATION.number:
        raise ClientForked(
            f"{what} was made before this process (pid {os.getpid()}) was forked, and belongs to its parent. "
            "Make producers and consumers after the fork: in gunicorn's post_fork, celery's worker_process_init, or "
            "the target of multiprocessing.Process."
        )
